"""The processor of this machine and its cores."""
import os
import pathlib
import platform


def cores():
    """Those that this process may use, by number; where the system does not tell, as many as there are."""
    if hasattr(os, 'sched_getaffinity'):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def kind():
    """What it is called: rounding, and so the last digits of a run, differ between kinds."""
    listed = pathlib.Path('/proc/cpuinfo')
    lines = listed.read_text(encoding='utf-8').splitlines() if listed.exists() else []
    names = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return names[0] if names else platform.processor() or platform.machine()
