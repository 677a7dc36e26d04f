"""Private training with JAX: a gradient transformation of optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from counton import ZCDP, Key
from counton.training import FixedEpochs, plan
from counton.training.optax import loader, private_aggregate

random = np.random.default_rng(0)
dataset = random.standard_normal((600, 20)), random.integers(0, 2, 600)
sampler = FixedEpochs(examples=600, batch_size=50, epochs=5)
best = plan(sampler=sampler, guarantee=ZCDP(0.5)).best
noise = best.noise(key=Key.generate(), name="example", sampler=sampler)
optimizer = optax.chain(private_aggregate(noise, batch_size=50), optax.sgd(0.5))
gradient = jax.grad(lambda w, x, y: optax.sigmoid_binary_cross_entropy(x @ w["w"], y))
w = {"w": jnp.zeros(20)}
state = optimizer.init(w)
update = jax.jit(optimizer.update)
for inputs, labels in loader(noise, dataset):
    each = jax.vmap(gradient, in_axes=(None, 0, 0))(w, inputs, labels)
    updates, state = update(each, state)
    w = optax.apply_updates(w, updates)
print(best, noise.guarantee_text, f"norm of the weights: {jnp.linalg.norm(w['w']):.3f}", sep="; ")
