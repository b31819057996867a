"""The paper's figures from run folders, as PNG and PDF with a caption beside; it starts no run.

    python -m scripts.figures                            # from runs/ to results/figures
    python -m scripts.figures --figure=kl,curves

kl           cross-entropy of S and MT for every KL weight β (scripts.sweep --study=kl)
curves       cross-entropy of S, MT and training for all data sets and methods (--study=table2/…)
accuracy     the same of accuracies
epochs100    both with 100 epochs a round (--study=table4/…)
snr          CDF of the SNR of the clients' weights (study table3)
client_size  MT accuracy against client size on Shakespeare (--study=table2/shakespeare)

Only finished runs are drawn. What is missing is named with the command that makes it. The curves of all runs are kept
in results_dir/figures/histories.jsonl, which stands for folders that are gone; snr and client_size need the folders.
"""
import pathlib

from absl import flags

from virtual_tf.core import safe_files
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.download import DATA_DIR
from virtual_tf.report import figures, paper_figures
from virtual_tf.report.paper_figures import DRAWERS
from virtual_tf.report.sources import OUTPUT_DIR, Source
from virtual_tf.studies import kept

from . import entry


def define_flags():
    flags.DEFINE_list('figure', list(DRAWERS), f'figures to draw, of {", ".join(DRAWERS)}')
    flags.DEFINE_string('output_dir', OUTPUT_DIR, 'root of the runs\' folders, as scripts.sweep writes them')
    flags.DEFINE_string('results_dir', 'results', 'folder below which the pictures are written, in figures')
    flags.DEFINE_string('data_dir', DATA_DIR, 'root with one folder of raw files a data set; for client_size')


def main(_):
    values = flags.FLAGS
    unknown = [name for name in values.figure if name not in DRAWERS]
    if unknown or not values.figure:
        raise VirtualTfError(f'figure must be of {", ".join(DRAWERS)}, got {",".join(values.figure) or "none"}')
    folder, drawn, lacking = pathlib.Path(values.results_dir).expanduser() / 'figures', 0, {}
    source = Source(pathlib.Path(values.output_dir).expanduser(), values.data_dir, kept=kept.load(folder / kept.FILE))
    for name in dict.fromkeys(values.figure):
        pictures, lines = DRAWERS[name](source)
        for line in lines:
            lacking.setdefault(line, []).append(name)
        for picture in pictures:
            safe_files.check_writable(folder, 'results_dir')
            figures.save(picture.figure, folder, picture.name, picture.caption)
            print(f'{folder / picture.name}.png, .pdf, .txt\n{picture.caption}\n', flush=True)
            drawn += 1
    for line, names in lacking.items():
        print(f'missing for {", ".join(names)}: {line}')
    if not drawn:
        raise VirtualTfError(f'nothing can be drawn: output_dir = {source.root} has no finished run for '
                             f'{", ".join(values.figure)}; the commands above make them')
    paper_figures.keep(folder / kept.FILE, source)


if __name__ == '__main__':
    entry.run(main, define_flags)
