"""Run in a process of its own, without virtual_tf: what exported files predict, as npz beside them.

    python load_exports.py FOLDER     # of files NAME.tflite, NAME.keras, folders NAME.savedmodel, and NAME.x.npy
"""
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

SEED, SAMPLES = 4, 3


def saved_model(path, x):
    loaded = tf.saved_model.load(str(path)).signatures
    sampled = loaded['sample'](x=tf.constant(x), seed=tf.constant(SEED), samples=tf.constant(SAMPLES))
    alone = loaded['predict'](x=tf.constant(x[:1]))['probabilities']
    return {'mean': loaded['predict'](x=tf.constant(x))['probabilities'], 'alone': alone, **sampled}


def tflite(path, x):
    interpreter = tf.lite.Interpreter(str(path))
    run = interpreter.get_signature_runner()
    one_by_one = interpreter.get_input_details()[0]['shape_signature'][0] == 1
    answers = [run(x=x[i:i + 1]) for i in range(len(x))] if one_by_one else [run(x=x)]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


def keras_file(path, x):
    return {'mean': keras.saving.load_model(path).predict(x, verbose=0)}


if __name__ == '__main__':
    for package in ('virtual_tf', 'tensorflow_probability', 'tf_keras'):
        sys.modules[package] = None     # an import of these is an error
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.iterdir()):
        read = {'.savedmodel': saved_model, '.tflite': tflite, '.keras': keras_file}.get(path.suffix)
        if read:
            x = np.load(folder / f'{path.name.split("-")[0]}.npy')
            np.savez(folder / f'{path.name}.npz', **{name: np.asarray(value) for name, value in read(path, x).items()})
