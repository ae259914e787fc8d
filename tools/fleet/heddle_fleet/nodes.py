"""The purpose of a node of the cluster, derived from ray.nodes()."""

MOST_COMPILERS = 64
# A GPU wants a core for its runner, and one for its host's work.
CORES_FOR_A_GPU = 2


def devices_of(node, resource):
    return int(node["Resources"].get(resource, 0)) if node["Alive"] else 0


def compilers_of(node, resource):
    """How many candidates may be compiled at a time on a node, for devices of this name. Where CPUs
    are measured nobody else compiles: the device does that in turns with measuring."""
    resources = node["Resources"]
    measures_cpu = any(name.startswith("cpu:") for name in resources)
    if not node["Alive"] or (measures_cpu and resource.startswith("cpu:")):
        return 0
    gpus = sum(int(n) for name, n in resources.items() if name.startswith("gpu:"))
    free = int(resources.get("CPU", 0)) - CORES_FOR_A_GPU * gpus
    return min(MOST_COMPILERS, max(free, 1 if gpus else 0))


def node_name(node):
    return f"{node['NodeManagerHostname']}/{node['NodeID'][:6]}"
