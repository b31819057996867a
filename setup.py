"""Packaging; requirements.txt has the versions that are tested together."""
import pathlib

import setuptools

HERE = pathlib.Path(__file__).parent


def requirements(path):
    lines = (line.split('#')[0].strip() for line in (HERE / path).read_text(encoding='utf-8').splitlines())
    return [line for line in lines if line and not line.startswith('-')]


setuptools.setup(
    name='virtual-tf',
    version='0.1.0',
    description='VIRTUAL: variational federated multi-task learning on TensorFlow Probability',
    license='Apache-2.0',
    python_requires='>=3.11,<3.12',
    packages=setuptools.find_packages(include=['virtual_tf', 'virtual_tf.*', 'scripts']),
    package_data={'virtual_tf.data': ['watch.npz', 'watch.LICENSE'], 'virtual_tf.deploy': ['app/pyproject.toml']},
    install_requires=requirements('requirements.txt'),
    extras_require={'dev': requirements('requirements-dev.txt'), 'flower': requirements('requirements-flower.txt')},
)
