"""Made-up runs, written as RunFolder writes real ones."""
from virtual_tf.runs.folder import RunFolder


def write(path, settings, rows, summary=None, data=None, end=True):
    """A run's folder with these metrics by round; it is finished unless end=False. Returns the RunFolder."""
    path.mkdir(parents=True)
    folder = RunFolder(path)
    folder.begin({'settings': settings.to_dict(), 'data': {'clients': 30, 'caveat': ''} | (data or {}),
                  'git_commit': 'abc'})
    folder.open_metrics([{'round': i + 1} | row for i, row in enumerate(rows)]).close()
    if end:
        folder.finish(summary or {})
    return folder


def write_seeds(root, each, by_seed, **options):
    """Runs of an Experiment: {seed: rows}."""
    for seed, rows in by_seed.items():
        write(root / each.folder(seed), each.settings(seed), rows, **options)
