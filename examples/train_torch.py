"""Private training with PyTorch: any optimiser, gradients of examples by Opacus."""

import torch
from opacus import GradSampleModule

from counton import ApproxDP, Key
from counton.training import SecretPlaces, plan
from counton.training.torch import make_private

dataset = torch.utils.data.TensorDataset(torch.randn(600, 20), torch.randint(0, 2, (600,)))
loss = torch.nn.CrossEntropyLoss()
model = GradSampleModule(torch.nn.Linear(20, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

key = Key.generate()
sampler = SecretPlaces(600, steps_per_epoch=12, epochs=5, key=key, name="example")
noise = plan(sampler=sampler, guarantee=ApproxDP(1, 1e-5)).best.noise(key=key, name="example")
private = make_private(optimizer, noise, model, batch_size=50)
for inputs, labels in private.loader(dataset):
    loss(model(inputs), labels).backward()
    optimizer.step()

print(noise.guarantee_text, f"at the end: epsilon = {private.epsilon(1e-5):g}", sep="\n")
