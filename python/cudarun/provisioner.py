"""A provisioner for Jupyter's kernels: each one starts through cudarun.

jupyter_client imports this by the entry point `cudarun`, for kernels that name it and, with
JUPYTER_DEFAULT_PROVISIONER_NAME=cudarun, for all that name no other.
"""

import os
import shutil
from typing import TYPE_CHECKING, Any, List, Optional

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from ._program import INSTALL, find

if TYPE_CHECKING:
    from jupyter_client.connect import KernelConnectionInfo

# cudarun's own, where it cannot start the program.
REFUSED = 125


class CudarunProvisioner(LocalProvisioner):
    """Puts cudarun before the command of a kernel. cudarun becomes the kernel, so signals reach it as they did."""

    _has_told = False

    async def launch_kernel(self, cmd: List[str], **kwargs: Any) -> "KernelConnectionInfo":
        self._has_told = False
        if os.path.basename(cmd[0]) == "cudarun" or cmd[1:3] == ["-m", "cudarun"]:
            return await super().launch_kernel(cmd, **kwargs)
        program = find()
        if program is None:
            self.log.warning("there is no cudarun, so this kernel starts without it; hint: %s", INSTALL)
            return await super().launch_kernel(cmd, **kwargs)
        # Of a kernel whose program is gone, Jupyter itself says so.
        path = (kwargs.get("env") or os.environ).get("PATH")
        if shutil.which(os.path.expanduser(cmd[0]), path=path) is None:
            return await super().launch_kernel(cmd, **kwargs)
        try:
            return await super().launch_kernel([program, "--", *cmd], **kwargs)
        except OSError as error:
            self.log.warning("%s does not start, so this kernel starts without it: %s; hint: %s", program, error, INSTALL)
            return await super().launch_kernel(cmd, **kwargs)

    async def poll(self) -> Optional[int]:
        status = await super().poll()
        if status == REFUSED and not self._has_told:
            self._has_told = True
            self.log.error("cudarun did not start this kernel: its reason is above")
        return status
