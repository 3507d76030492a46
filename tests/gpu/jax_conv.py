"""A convolution through jax. Prints every NVIDIA file that is mapped; fails when jax fell back to the CPU."""

import os
import sys

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax
import jax.numpy as jnp

from mapped import show_mapped

out = jax.lax.conv(jnp.ones((1, 3, 8, 8), jnp.float32), jnp.ones((4, 3, 3, 3), jnp.float32), (1, 1), "SAME")
platform = jax.devices()[0].platform
print(platform, float(out.sum()), flush=True)
show_mapped()
sys.exit(platform != "gpu" or float(out.sum()) != 5808.0)
