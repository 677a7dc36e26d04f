"""Private training with PyTorch: any optimiser, gradients of examples by Opacus."""

import torch
from opacus import GradSampleModule

from counton import ZCDP, Key
from counton.training import FixedEpochs, plan
from counton.training.torch import make_private

inputs = torch.randn(600, 20)
labels = torch.randint(0, 2, (600,))
sampler = FixedEpochs(examples=600, batch_size=50, epochs=5)
model = GradSampleModule(torch.nn.Linear(20, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
best = plan(sampler=sampler, dimension=42, guarantee=ZCDP(0.5), clip=1.0).best
noise = best.noise(key=Key.generate(), name="example", sampler=sampler)
private = make_private(optimizer, noise, model, batch_size=50)
for batch in private.batches():
    torch.nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
    optimizer.step()
print(best, private.step, noise.guarantee_text, sep="; ")
