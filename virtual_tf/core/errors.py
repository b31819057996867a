"""What goes wrong in ways that a user can understand; no traceback is needed for these."""
import difflib

ANEW = '--noresume (on Flower resume=false)'     # what starts a run anew, for messages that advise it


class VirtualTfError(Exception):
    """What a user can put right: a sentence with the argument, its value and the way out."""


class RunError(VirtualTfError):
    """What stopped a run whose settings are right, such as a full disk; it can be continued once that is put right."""


class NothingLearntError(RunError):
    """In several rounds in a row nobody's training gave finite numbers."""


class Interrupted(Exception):
    """The run was asked to stop, and did so between two rounds."""


def unknown(kind, name, known):
    """The error for a name that nothing stands behind: what is known, the nearest one first if there is one."""
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f'did you mean {near[0]!r}? ' if near else ''
    return VirtualTfError(f'{kind} {name!r} is unknown; {hint}known are {", ".join(sorted(known))}')
