"""The extended resources that Ray counts as GPUs: those of NVIDIA, AMD and Intel."""

from __future__ import annotations

DEFAULT_GPU = "nvidia.com/gpu"
_NAMES = (DEFAULT_GPU, "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
_PREFIXES = ("nvidia.com/gpu.", "nvidia.com/mig-")  # shared GPUs, and parts of one
# The same as a CEL expression of a name.
IS_GPU = " || ".join([f"{{0}} in {list(_NAMES)}", *(f"{{0}}.startsWith('{prefix}')" for prefix in _PREFIXES)])

GPU_RESOURCE = (
    "",
    IS_GPU.format("self"),
    "must be a resource that Ray counts as a GPU: nvidia.com/gpu, nvidia.com/gpu.*, nvidia.com/mig-*, amd.com/gpu, "
    "gpu.intel.com/i915 or gpu.intel.com/xe; TPU, Gaudi and Neuron are not supported",
)
# Its text is that of release 0.1.0; ONE_KIND_OF_GPU and NAME_NEEDS_USE_GPU together hold for all other names.
NEEDS_USE_GPU = (
    ".useGPU",
    "self.useGPU || !has(self.resourcesPerWorker) || !('nvidia.com/gpu' in self.resourcesPerWorker)",
    "must be true when resourcesPerWorker requests nvidia.com/gpu",
)
NAME_NEEDS_USE_GPU = (
    ".gpuResourceName",
    "!has(self.gpuResourceName) || self.useGPU",
    "needs useGPU: it is the resource of the workers' GPUs",
)
ONE_KIND_OF_GPU = (
    ".resourcesPerWorker",
    "!has(self.resourcesPerWorker) || self.resourcesPerWorker.all(k, "
    f"k == (has(self.gpuResourceName) ? self.gpuResourceName : '{DEFAULT_GPU}') || !({IS_GPU.format('k')}))",
    f"has GPUs of another name than gpuResourceName, which is {DEFAULT_GPU} by default; set gpuResourceName to theirs",
)


def _count(scaling: str) -> str:
    """How many GPUs a worker has, as a CEL expression; without useGPU, which cannot change, the same for all."""
    name, amounts = f"{scaling}.?gpuResourceName.orValue('{DEFAULT_GPU}')", f"{scaling}.resourcesPerWorker"
    return f"(has({amounts}) && {name} in {amounts} ? string({amounts}[{name}]) : '1')"


# For a change while the job is suspended; `oldSelf` is what was before.
SAME_GPUS = {
    "rule": f"{_count('self')} == {_count('oldSelf')}",
    "message": "the number of GPUs per worker cannot change; make a new job with resumeFrom for that",
    "fieldPath": ".resourcesPerWorker",
}


def is_gpu(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES)
