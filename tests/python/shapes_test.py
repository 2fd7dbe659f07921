"""Reads the output of `foldgrad data synth shapes` without our code, following the documentation of CIFAR-10's
binary layout. Classes must be equally frequent, images must differ, and a linear classifier must not solve the task."""
import os
import tempfile

from setting import PROGRAM, call, expect, require

require("numpy")
import numpy as np  # noqa: E402

TRAIN, TEST = 10000, 2000
MOST_RIGHT = 0.35  # the highest accuracy that a linear classifier may have


def records(*paths):
    """Returns labels [N] and images [N, 3, 32, 32] from files with records of 1 + 3,072 bytes."""
    every = np.concatenate([np.fromfile(path, np.uint8) for path in paths]).reshape(-1, 3073)
    return every[:, 0].astype(int), every[:, 1:].reshape(-1, 3, 32, 32)


def features(images):
    """Returns the means of blocks of 2 x 2 pixels, and a constant feature."""
    means = images.reshape(-1, 3, 16, 2, 16, 2).mean((3, 5)).reshape(len(images), -1) / 255 - 0.5
    return np.concatenate([means, np.ones((len(images), 1))], 1)


def linear_accuracy(train, test):
    """Returns the accuracy of ridge regression onto the classes, with the best of four penalties."""
    (labels, images), (test_labels, test_images) = train, test
    x, targets, x_test = features(images), np.eye(10)[labels], features(test_images)
    right = []
    for penalty in (1, 10, 100, 1000):
        weights = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ targets)
        right.append(np.mean((x_test @ weights).argmax(1) == test_labels))
    return max(right)


def main():
    with tempfile.TemporaryDirectory() as files:
        call(PROGRAM, "data", "synth", "shapes", files, "--count", str(TRAIN), "--test-count", str(TEST))
        train = records(*[os.path.join(files, f"data_batch_{k}.bin") for k in range(1, 6)])
        test = records(os.path.join(files, "test_batch.bin"))
        with open(os.path.join(files, "batches.meta.txt"), encoding="utf-8") as file:
            names = file.read().split()
    for (labels, _), count in ((train, TRAIN), (test, TEST)):
        expect(np.bincount(labels).tolist() == [count // len(names)] * 10,
               f"each of {names} must have {count // 10} images, got {np.bincount(labels)}")
    different = len({image.tobytes() for _, images in (train, test) for image in images})
    expect(different == TRAIN + TEST, f"{TRAIN + TEST} different images are required, got {different}")
    right = linear_accuracy(train, test)
    print(f"a linear classifier gets {right:.1%} right")
    expect(right <= MOST_RIGHT, f"the linear classifier's accuracy must be at most {MOST_RIGHT:.0%}")


if __name__ == "__main__":
    main()
