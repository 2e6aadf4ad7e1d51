"""Table of the torchvision datasets that hold all their pictures in memory. Plain data."""

from __future__ import annotations

from typing import Any

from dscompile.sources.torchvision_entry import Archive, Entry, Split


def _cifar(
    folder: str, archive: Archive, train: dict[str, str], test: dict[str, str], meta: dict[str, str]
) -> Any:
    """Return the splits and the checksums of a CIFAR set from its file names and their md5."""
    places = [{f"{folder}/{name}": md5 for name, md5 in part.items()} for part in (train, test, meta)]
    splits = {
        "train": Split({"train": True}, (*places[0], *places[2]), (archive,)),
        "test": Split({"train": False}, (*places[1], *places[2]), (archive,)),
    }
    return {"splits": splits, "md5": places[0] | places[1] | places[2]}


def _single(options: dict[str, Any], file: str, md5: str, url: str) -> Split:
    """Return a split whose one published file is read as it is."""
    return Split(options, (file,), (Archive(file, md5, url),))


_STL10 = Archive(
    "stl10_binary.tar.gz",
    "91f7769df0f17e558f3565bffb0c7dfb",
    "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
)
_SVHN = {
    "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test": "eb5a983be6a315427106f1b164d9cef3",
    "extra": "a93ce644f1a588dc4d68dda5feec44a7",
}
_SVHN_SPLITS = {
    name: _single(
        {"split": name}, f"{name}_32x32.mat", md5, f"http://ufldl.stanford.edu/housenumbers/{name}_32x32.mat"
    )
    for name, md5 in _SVHN.items()
}
_USPS = {
    "train": ("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
    "test": ("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
}
_FER_BOTH = "fer2013/fer2013.csv|fer2013/icml_face_data.csv"

ARRAYS: dict[str, Entry] = {
    "cifar10": Entry(
        "CIFAR10",
        layout="HWC",
        citation="A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
        **_cifar(
            "cifar-10-batches-py",
            Archive(
                "cifar-10-python.tar.gz",
                "c58f30108f718f92721af3b95e74349a",
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            ),
            {
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
            {"test_batch": "40351d587109b95175f43aff81a1287e"},
            {"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"},
        ),
    ),
    "cifar100": Entry(
        "CIFAR100",
        layout="HWC",
        citation="A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
        **_cifar(
            "cifar-100-python",
            Archive(
                "cifar-100-python.tar.gz",
                "eb9058c3a382ffc7106e4002c42a8d85",
                "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            ),
            {"train": "16019d7e3df5f24257cddd939b257f8d"},
            {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
            {"meta": "7973b15100ade9c7d40fb424638fde48"},
        ),
    ),
    "svhn": Entry(
        "SVHN",
        {name: _SVHN_SPLITS[name] for name in ("train", "test")},
        layout="CHW",
        md5={f"{name}_32x32.mat": md5 for name, md5 in _SVHN.items()},
        needs=("scipy",),
        # 1.3 GB that few want: whoever builds svhn is not made to download it.
        variants={"extra": {"splits": _SVHN_SPLITS}},
        citation="Y. Netzer et al.: Reading Digits in Natural Images with Unsupervised Learning, 2011",
    ),
    "stl10": Entry(
        "STL10",
        {
            "train": Split(
                {"split": "train"},
                ("stl10_binary/train_X.bin", "stl10_binary/train_y.bin", "stl10_binary/class_names.txt"),
                (_STL10,),
            ),
            "test": Split(
                {"split": "test"},
                ("stl10_binary/test_X.bin", "stl10_binary/test_y.bin", "stl10_binary/class_names.txt"),
                (_STL10,),
            ),
            "unlabeled": Split({"split": "unlabeled"}, ("stl10_binary/unlabeled_X.bin",), (_STL10,)),
        },
        layout="CHW",
        md5={
            "stl10_binary/train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
            "stl10_binary/train_y.bin": "5a34089d4802c674881badbb80307741",
            "stl10_binary/unlabeled_X.bin": "5242ba1fed5e4be9e1e742405eb56ca4",
            "stl10_binary/test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
            "stl10_binary/test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
        },
        citation="A. Coates, H. Lee, A. Y. Ng: An Analysis of Single-Layer Networks in Unsupervised Feature "
        "Learning, AISTATS 2011",
    ),
    "usps": Entry(
        "USPS",
        {
            name: _single(
                {"train": name == "train"},
                file,
                md5,
                f"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/{file}",
            )
            for name, (file, md5) in _USPS.items()
        },
        layout="HW",
        md5=dict(_USPS.values()),
    ),
    "semeion": Entry(
        "SEMEION",
        {
            "train": _single(
                {},
                "semeion.data",
                "cb545d371d2ce14ec121470795a77432",
                "http://archive.ics.uci.edu/ml/machine-learning-databases/semeion/semeion.data",
            )
        },
        layout="HW",
        md5={"semeion.data": "cb545d371d2ce14ec121470795a77432"},
    ),
    "fer2013": Entry(
        "FER2013",
        {
            "train": Split({"split": "train"}, (f"{_FER_BOTH}|fer2013/train.csv",)),
            # test.csv has no labels: the test split needs one of the two complete files.
            "test": Split({"split": "test"}, (_FER_BOTH,)),
        },
        layout="pairs",
        md5={
            "fer2013/train.csv": "3f0dfb3d3fd99c811a1299cb947e3131",
            "fer2013/fer2013.csv": "f8428a1edbd21e88f42c73edd2a14f95",
            "fer2013/icml_face_data.csv": "b114b9e04e6949e5fe8b6a98b3892b1d",
        },
        fetch="none",
    ),
}
