"""Noise for training: strategies, the noise of each step, and samplers that bound in which steps an
example counts.

>>> from counton import Key, ZCDP
>>> from counton.training import FixedEpochs, plan
>>> sampler = FixedEpochs(examples=400, batch_size=100, epochs=2)
>>> best = plan(sampler=sampler, dimension=650, guarantee=ZCDP(0.5), clip=1.0).best
>>> noise = best.noise(key=Key.generate(), name="digits", sampler=sampler)
>>> import numpy as np
>>> noise.add(1, {"weight": np.zeros((64, 10)), "bias": np.zeros(10)})["bias"].shape
(10,)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.training.accounting import noise_multiplier as noise_multiplier
    from counton.training.accounting import poisson_multiplier as poisson_multiplier
    from counton.training.batch_samplers import FixedEpochs as FixedEpochs
    from counton.training.batch_samplers import GivenBatches as GivenBatches
    from counton.training.batch_samplers import MinSeparation as MinSeparation
    from counton.training.batch_samplers import PoissonBatches as PoissonBatches
    from counton.training.batch_samplers import Sampler as Sampler
    from counton.training.batch_samplers import SecretPlaces as SecretPlaces
    from counton.training.fit import check_fit as check_fit
    from counton.training.noise import TrainingNoise as TrainingNoise
    from counton.training.strategies.sgd import SGD as SGD
    from counton.training.training_plan import TrainingDesign as TrainingDesign
    from counton.training.training_plan import plan as plan

__getattr__, __dir__, __all__ = attach(__name__, __file__)
