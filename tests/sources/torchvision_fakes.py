"""Tiny datasets in the real file layouts, each with the samples that must come out of it.

A fake is a function `root -> {split: [(pixels, label), …]}`. Its expectations come from what it wrote,
for lossy pictures from Pillow, never from torchvision.
"""

from __future__ import annotations

import bz2
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image

Samples = list[tuple[np.ndarray[Any, Any], Any]]
Expected = dict[str, Samples]


def pixels(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    """Return uint8 values in which neither two axes nor two seeds look alike."""
    count = np.arange(int(np.prod(shape)), dtype=np.int64)
    return ((count * count * 7 + count * 3 + seed * 31) % 251).astype(np.uint8).reshape(shape)


def save(path: Path, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Write a picture and return what Pillow reads back, in its own mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    with Image.open(path) as picture:
        return np.asarray(picture)


def picture(path: Path, seed: int, height: int = 6, width: int = 9) -> np.ndarray[Any, Any]:
    return save(path, pixels(seed, height, width, 3))


def write(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def mat(path: Path, **values: Any) -> None:
    from scipy.io import savemat

    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, values)


def idx(path: Path, array: np.ndarray[Any, Any]) -> None:
    code = {"uint8": 8, ">i4": 12}["uint8" if array.dtype == np.uint8 else ">i4"]
    head = bytes([0, 0, code, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    write(path, head + array.tobytes())


def _cifar(
    root: Path, folder: str, files: dict[str, tuple[str, list[int]]], key: str, meta: dict[str, Any]
) -> Expected:
    expected: Expected = {"train": [], "test": []}
    for number, (file, (split, labels)) in enumerate(files.items()):
        data = pixels(number, len(labels), 3, 32, 32)
        write(root / folder / file, pickle.dumps({"data": data.reshape(len(labels), -1), key: labels}))
        expected[split] += list(zip(data.transpose(0, 2, 3, 1), labels, strict=True))
    for file, content in meta.items():
        write(root / folder / file, pickle.dumps(content))
    return expected


def cifar10(root: Path) -> Expected:
    files = {f"data_batch_{n}": ("train", [n, 9 - n]) for n in range(1, 6)} | {
        "test_batch": ("test", [7, 0, 3])
    }
    names = {"label_names": [f"kind{n}" for n in range(10)]}
    return _cifar(root, "cifar-10-batches-py", files, "labels", {"batches.meta": names})


def cifar100(root: Path) -> Expected:
    files = {"train": ("train", [99, 0, 41]), "test": ("test", [5])}
    names = {"fine_label_names": [f"kind{n}" for n in range(100)], "coarse_label_names": ["a"]}
    return _cifar(root, "cifar-100-python", files, "fine_labels", {"meta": names})


def idx_pair(folder: str, stems: dict[str, str]) -> Callable[[Path], Expected]:
    def make(root: Path) -> Expected:
        expected = {}
        for number, (split, stem) in enumerate(stems.items()):
            images, labels = pixels(number, 4, 28, 28), np.array([3, 0, 9, 3 + number], dtype=np.uint8)
            idx(root / folder / "raw" / f"{stem}-images-idx3-ubyte", images)
            idx(root / folder / "raw" / f"{stem}-labels-idx1-ubyte", labels)
            expected[split] = list(zip(images, labels.tolist(), strict=True))
        return expected

    return make


def qmnist(root: Path) -> Expected:
    expected = {}
    for number, split in enumerate(("train", "test")):
        images = pixels(number, 3, 28, 28)
        facts = (np.arange(24).reshape(3, 8) % 10).astype(">i4")
        idx(root / f"QMNIST/raw/qmnist-{split}-images-idx3-ubyte", images)
        idx(root / f"QMNIST/raw/qmnist-{split}-labels-idx2-int", facts)
        expected[split] = list(zip(images, facts[:, 0].tolist(), strict=True))
    return expected


def svhn(root: Path) -> Expected:
    expected = {}
    for number, split in enumerate(("train", "test")):
        images, labels = pixels(number, 3, 32, 32, 3), np.array([[10], [1], [9]], dtype=np.uint8)
        mat(root / f"{split}_32x32.mat", X=images.transpose(1, 2, 3, 0), y=labels)
        expected[split] = list(zip(images, [0, 1, 9], strict=True))
    return expected


def stl10(root: Path) -> Expected:
    folder, expected = root / "stl10_binary", {}
    for number, (split, labels) in enumerate({"train": [1, 10], "test": [4, 2], "unlabeled": []}.items()):
        images = pixels(number, 2, 96, 96, 3)
        write(folder / f"{split}_X.bin", images.transpose(0, 3, 2, 1).tobytes())  # columns before rows
        if labels:
            write(folder / f"{split}_y.bin", bytes(labels))
        expected[split] = list(zip(images, [label - 1 for label in labels] or [-1, -1], strict=True))
    write(folder / "class_names.txt", "\n".join(f"kind{n}" for n in range(10)) + "\n")
    return expected


def usps(root: Path) -> Expected:
    expected = {}
    for file, split, labels in (("usps.bz2", "train", [0, 9]), ("usps.t.bz2", "test", [4])):
        images = np.array([0, 127, 255], dtype=np.uint8)[pixels(len(labels), len(labels), 16, 16) % 3]
        text = {0: "-1", 127: "0", 255: "1"}
        lines = [
            f"{label + 1} " + " ".join(f"{n + 1}:{text[int(v)]}" for n, v in enumerate(image.ravel()))
            for label, image in zip(labels, images, strict=True)
        ]
        write(root / file, bz2.compress("".join(f"{line} \n" for line in lines).encode()))
        expected[split] = list(zip(images, labels, strict=True))
    return expected


def semeion(root: Path) -> Expected:
    images, labels = pixels(1, 3, 16, 16) % 2, [8, 0, 3]
    lines = [
        " ".join([f"{v}.0000" for v in image.ravel()] + ["1" if n == label else "0" for n in range(10)])
        for image, label in zip(images, labels, strict=True)
    ]
    write(root / "semeion.data", "".join(f"{line} \n" for line in lines))
    return {"train": list(zip(images * np.uint8(255), labels, strict=True))}


def fer2013(root: Path) -> Expected:
    usages = ["Training", "PublicTest", "Training", "PrivateTest"]
    images = pixels(2, 4, 48, 48)
    lines = [f"{n},{' '.join(map(str, images[n].ravel()))},{usage}\n" for n, usage in enumerate(usages)]
    write(root / "fer2013/fer2013.csv", "emotion,pixels,Usage\n" + "".join(lines))
    return {"train": [(images[0], 0), (images[2], 2)], "test": [(images[1], 1), (images[3], 3)]}


def gtsrb(root: Path) -> Expected:
    base = root / "gtsrb"
    train = [(picture(base / f"GTSRB/Training/{c:05d}/{n}.ppm", c + n), c) for c in (0, 1) for n in (0, 1)]
    names = {"b.ppm": 7, "a.ppm": 2}
    test = [(picture(base / f"GTSRB/Final_Test/Images/{name}", c), c) for name, c in names.items()]
    rows = "".join(f"{name};9;6;{c}\n" for name, c in names.items())
    write(base / "GT-final_test.csv", "Filename;Width;Height;ClassId\n" + rows)
    return {"train": train, "test": test}


def food101(root: Path) -> Expected:
    expected = {}
    for number, split in enumerate(("train", "test")):
        listed = {"pie": [f"pie/{number}"], "cake": [f"cake/{number + 5}"]}
        write(root / f"food-101/meta/{split}.json", json.dumps(listed))
        expected[split] = [
            (picture(root / f"food-101/images/{name}.jpg", number + label), label)
            for label, name in ((1, listed["pie"][0]), (0, listed["cake"][0]))
        ]
    return expected


def flowers102(root: Path) -> Expected:
    base, labels = root / "flowers-102", [5, 1, 102, 8, 3, 4]
    pictures = [picture(base / f"jpg/image_{n + 1:05d}.jpg", n) for n in range(6)]
    ids = {"trnid": [2, 1], "valid": [3, 4], "tstid": [6, 5]}
    mat(base / "imagelabels.mat", labels=np.array([labels]))
    mat(base / "setid.mat", **{key: np.array([value]) for key, value in ids.items()})
    samples = {key: [(pictures[n - 1], labels[n - 1] - 1) for n in value] for key, value in ids.items()}
    return {"train": samples["trnid"], "val": samples["valid"], "test": samples["tstid"]}


def dtd(root: Path) -> Expected:
    expected = {}
    for number, split in enumerate(("train", "val", "test")):
        names = [f"woven/{split}.jpg", f"dotted/{split}.jpg"]
        write(root / f"dtd/dtd/labels/{split}1.txt", "".join(f"{name}\n" for name in names))
        expected[split] = [
            (picture(root / "dtd/dtd/images" / name, number + n), 1 - n) for n, name in enumerate(names)
        ]
    return expected


def fgvc_aircraft(root: Path) -> Expected:
    data, expected = root / "fgvc-aircraft-2013b/data", {}
    write(data / "variants.txt", "A 1\nB/2\n")
    for number, split in enumerate(("train", "val", "test")):
        write(data / f"images_variant_{split}.txt", f"{number}1 B/2\n{number}0 A 1\n")
        expected[split] = [(picture(data / f"images/{number}{n}.jpg", number + n), n) for n in (1, 0)]
    return expected


def stanford_cars(root: Path) -> Expected:
    base, expected = root / "stanford_cars", {}
    mat(base / "devkit/cars_meta.mat", class_names=np.array(["AM General", "Acura", "Audi"], dtype=object))
    lists = {"train": "devkit/cars_train_annos.mat", "test": "cars_test_annos_withlabels.mat"}
    for number, (split, file) in enumerate(lists.items()):
        names = ["00001.jpg", "00002.jpg"]
        rows = [(np.uint8(3 - n), name) for n, name in enumerate(names)]
        mat(base / file, annotations=np.array(rows, dtype=[("class", object), ("fname", object)]))
        expected[split] = [
            (picture(base / f"cars_{split}" / f, number + n), 2 - n) for n, f in enumerate(names)
        ]
    return expected


def oxford_iiit_pet(root: Path) -> Expected:
    base, expected = root / "oxford-iiit-pet", {}
    for number, split in enumerate(("trainval", "test")):
        names = [f"british_cat_{number}", f"beagle_{number}"]
        write(
            base / f"annotations/{split}.txt",
            "".join(f"{name} {n + 1} {n + 1} 1\n" for n, name in enumerate(names)),
        )
        expected[split] = [
            (picture(base / f"images/{name}.jpg", number + n), n) for n, name in enumerate(names)
        ]
    return expected


def pet_masks(root: Path) -> Expected:
    expected = oxford_iiit_pet(root)
    for number, (split, names) in enumerate(
        (s, [f"british_cat_{n}", f"beagle_{n}"]) for n, s in enumerate(expected)
    ):
        masks = [
            save(root / f"oxford-iiit-pet/annotations/trimaps/{name}.png", pixels(number, 6, 9) % 3 + 1)
            for name in names
        ]
        expected[split] = [(image, mask) for (image, _), mask in zip(expected[split], masks, strict=True)]
    return expected


def pcam(root: Path) -> Expected:
    expected = {}
    (root / "pcam").mkdir()
    for number, (split, word) in enumerate({"train": "train", "val": "valid", "test": "test"}.items()):
        images, labels = pixels(number, 2, 96, 96, 3), [number % 2, 1]
        for letter, values in (("x", images), ("y", np.array(labels, dtype=np.uint8).reshape(2, 1, 1, 1))):
            with h5py.File(root / f"pcam/camelyonpatch_level_2_split_{word}_{letter}.h5", "w") as file:
                file[letter] = values
        expected[split] = list(zip(images, labels, strict=True))
    return expected


def tree(pattern: str, folders: dict[str, str], classes: list[str]) -> Callable[[Path], Expected]:
    """Return a fake of class folders below a folder for each split, two pictures in each."""

    def make(root: Path) -> Expected:
        return {
            split: [
                (picture(root / pattern.format(folder, name, n), number + label + n), label)
                for label, name in enumerate(classes)
                for n in (0, 1)
            ]
            for number, (split, folder) in enumerate(folders.items())
        }

    return make


def imagenet(root: Path) -> Expected:
    import torch

    ids = ["n01", "n02"]
    torch.save(({"n01": ("crane", "bird"), "n02": ("crane",)}, ["n02", "n01"]), root / "meta.bin")
    return tree("{0}/{1}/{1}_{2}.JPEG", {"train": "train", "val": "val"}, ids)(root)


def sun397(root: Path) -> Expected:
    write(root / "SUN397/ClassName.txt", "/a/abbey\n/z/zoo/indoor\n")
    places = ["a/abbey/sun_a.jpg", "a/abbey/sun_b.jpg", "z/zoo/indoor/sun_0.jpg"]
    return {"train": [(picture(root / "SUN397" / place, n), n // 2) for n, place in enumerate(places)]}


def clevr(root: Path) -> Expected:
    base, expected = root / "clevr/CLEVR_v1.0", {}
    for number, split in enumerate(("train", "val")):
        names = [f"CLEVR_{split}_{n}.png" for n in range(2)]
        scenes = [{"image_filename": name, "objects": [{}] * (n + 3)} for n, name in enumerate(names)]
        write(base / f"scenes/CLEVR_{split}_scenes.json", json.dumps({"scenes": scenes}))
        expected[split] = [
            (picture(base / f"images/{split}/{name}", number + n), n + 3) for n, name in enumerate(names)
        ]
    return expected


def caltech101(root: Path) -> Expected:
    base = root / "caltech101/101_ObjectCategories"
    picture(base / "BACKGROUND_Google/image_0001.jpg", 9)
    grey = save(base / "ant/image_0001.jpg", pixels(1, 6, 9))
    return {"train": [(grey, 0), (picture(base / "bass/image_0001.jpg", 2), 1)]}


def caltech256(root: Path) -> Expected:
    base = root / "caltech256/256_ObjectCategories"
    places = ["001.ak47/001_0001.jpg", "001.ak47/001_0002.jpg", "002.flag/002_0001.jpg"]
    return {"train": [(picture(base / place, n), n // 2) for n, place in enumerate(places)]}


def omniglot(root: Path) -> Expected:
    expected = {}
    for number, split in enumerate(("background", "evaluation")):
        base = root / f"omniglot-py/images_{split}"
        # Neither the order of writing nor that of whole path strings ("Latin-A" < "Latin/") is the right one.
        places = [
            "Latin/character02/2.png",
            "Latin-A/character01/3.png",
            "Latin/character01/1.png",
            "Latin/character01/0.png",
        ]
        made = {p: save(base / p, (pixels(number + n, 5, 5) % 2).astype(bool)) for n, p in enumerate(places)}
        order = [(places[3], 0), (places[2], 0), (places[0], 1), (places[1], 2)]
        expected[split] = [(made[place] * np.uint8(255), label) for place, label in order]
    return expected


def places365(root: Path) -> Expected:
    write(root / "categories_places365.txt", "/a/airfield 0\n/z/zen_garden 1\n")
    write(root / "places365_train_standard.txt", "/z/zen_garden/1.jpg 1\n/a/airfield/0.jpg 0\n")
    write(root / "places365_val.txt", "Places365_val_1.jpg 1\n")
    train = [("z/zen_garden/1.jpg", 1), ("a/airfield/0.jpg", 0)]
    return {
        "train": [(picture(root / "data_large_standard" / place, label), label) for place, label in train],
        "val": [(picture(root / "val_large/Places365_val_1.jpg", 5), 1)],
    }


def lfw_people(root: Path) -> Expected:
    base, expected = root / "lfw-py", {}
    write(base / "lfw-names.txt", "Ann_A\t1\nBob_B\t2\n")
    for split, file, name, label in (("train", "Train", "Bob_B", 1), ("test", "Test", "Ann_A", 0)):
        write(base / f"peopleDev{file}.txt", f"1\n{name}\t{label + 1}\n")
        expected[split] = [
            (picture(base / f"lfw_funneled/{name}/{name}_{n:04d}.jpg", n), label) for n in range(1, label + 2)
        ]
    return expected


def celeba(root: Path) -> Expected:
    base, attributes = root / "celeba", [[1, -1], [-1, -1], [1, 1], [-1, 1], [1, -1], [1, 1]]
    names = [f"{n:06d}.jpg" for n in range(6)]

    def table(file: str, rows: list[list[int]], head: str = "") -> None:
        lines = [f"{name} {' '.join(map(str, row))}\n" for name, row in zip(names, rows, strict=True)]
        write(base / file, head + "".join(lines))

    table("list_attr_celeba.txt", attributes, "6\nBald Young\n")
    table("identity_CelebA.txt", [[n + 50] for n in range(6)])
    table("list_bbox_celeba.txt", [[0, 0, 1, 1]] * 6, "6\nx y w h\n")
    table("list_landmarks_align_celeba.txt", [[1] * 10] * 6, "6\nlefteye_x\n")
    table("list_eval_partition.txt", [[n // 2] for n in range(6)])
    samples = [
        (picture(base / f"img_align_celeba/{name}", n), np.array([(v + 1) // 2 for v in attributes[n]]))
        for n, name in enumerate(names)
    ]
    return {"train": samples[:2], "valid": samples[2:4], "test": samples[4:]}


def inaturalist(root: Path) -> Expected:
    names = [f"{n:05d}_Animalia_Chordata_Aves_Order_Family_Genus_species{n}" for n in range(2)]
    return tree("{0}/{1}/{2}.jpg", {"train": "2021_train", "val": "2021_valid"}, names)(root)


_TRAIN_TEST = {"train": "train", "test": "t10k"}
FAKES: dict[str, Callable[[Path], Expected]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "mnist": idx_pair("MNIST", _TRAIN_TEST),
    "fashion-mnist": idx_pair("FashionMNIST", _TRAIN_TEST),
    "kmnist": idx_pair("KMNIST", _TRAIN_TEST),
    "emnist:balanced": idx_pair("EMNIST", {s: f"emnist-balanced-{s}" for s in ("train", "test")}),
    "qmnist": qmnist,
    "svhn": svhn,
    "stl10": stl10,
    "usps": usps,
    "semeion": semeion,
    "fer2013": fer2013,
    "gtsrb": gtsrb,
    "food101": food101,
    "flowers102": flowers102,
    "dtd": dtd,
    "eurosat": tree("eurosat/2750/{1}/{1}_{2}.jpg", {"train": ""}, ["Forest", "River"]),
    "fgvc-aircraft": fgvc_aircraft,
    "stanford-cars": stanford_cars,
    "oxford-iiit-pet": oxford_iiit_pet,
    "oxford-iiit-pet:segmentation": pet_masks,
    "pcam": pcam,
    "rendered-sst2": tree(
        "rendered-sst2/{0}/{1}/{2}.png",
        {"train": "train", "val": "valid", "test": "test"},
        ["negative", "positive"],
    ),
    "sun397": sun397,
    "country211": tree(
        "country211/{0}/{1}/{2}.jpg", {s: s for s in ("train", "valid", "test")}, ["AD", "ZW"]
    ),
    "clevr-classification": clevr,
    "caltech101": caltech101,
    "caltech256": caltech256,
    "omniglot": omniglot,
    "imagenette": tree(
        "imagenette2/{0}/{1}/{2}.jpeg", {"train": "train", "val": "val"}, ["n01440764", "n02102040"]
    ),
    "imagenet": imagenet,
    "places365": places365,
    "lfw-people": lfw_people,
    "celeba": celeba,
    "inaturalist": inaturalist,
}
