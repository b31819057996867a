"""Packaging; requirements.txt has the versions that are tested together."""
import pathlib

import setuptools

HERE = pathlib.Path(__file__).parent


def requirements(path):
    lines = (line.split('#')[0].strip() for line in (HERE / path).read_text(encoding='utf-8').splitlines())
    return [line for line in lines if line and not line.startswith('-')]


setuptools.setup(
    name='virtual-tf',
    version='0.2.0',
    description='VIRTUAL: variational federated multi-task learning on TensorFlow Probability',
    license='Apache-2.0',
    python_requires='>=3.11,<3.14',
    classifiers=[f'Programming Language :: Python :: 3.{minor}' for minor in (11, 12, 13)],
    # The commands of scripts/ are installed inside the package, so that no other project's `scripts` is in their way.
    packages=[*setuptools.find_packages(include=['virtual_tf', 'virtual_tf.*']), 'virtual_tf.commands'],
    package_dir={'virtual_tf.commands': 'scripts'},
    package_data={'virtual_tf.data': ['watch.npz', 'watch.LICENSE'], 'virtual_tf.deploy': ['app/pyproject.toml']},
    entry_points={'console_scripts': ['virtual-tf = virtual_tf.__main__:main']},
    install_requires=requirements('requirements.txt'),
    extras_require={'dev': requirements('requirements-dev.txt'), 'flower': requirements('requirements-flower.txt')},
)
