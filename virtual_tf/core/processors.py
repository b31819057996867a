"""The processor cores of this machine."""
import os


def cores():
    """Those that this process may use, by number; where the system does not tell, as many as there are."""
    if hasattr(os, 'sched_getaffinity'):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
