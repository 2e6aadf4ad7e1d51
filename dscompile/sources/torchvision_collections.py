"""Table of the torchvision collections whose files come in several editions. Plain data."""

from __future__ import annotations

from dscompile.sources.torchvision_entry import Archive, Entry, Split

_PLACES_URL = "http://data.csail.mit.edu/places/places365"
_PLACES_MD5 = {
    "categories_places365.txt": "06c963b85866bd0649f97cb43dd16673",
    "places365_train_standard.txt": "30f37515461640559006b8329efbed1a",
    "places365_train_challenge.txt": "b2931dc997b8c33c27e7329c073a6b57",
    "places365_val.txt": "e9f2fd57bfd9d07630173f4e8708e4b1",
}
_PLACES_ARCHIVES = {
    "filelist_places365-standard.tar": "35a0585fee1fa656440f3ab298f8479c",
    "filelist_places365-challenge.tar": "70a8307e459c3de41690a7c76c931734",
    "train_large_places365standard.tar": "67e186b496a84c929568076ed01a8aa1",
    "train_large_places365challenge.tar": "605f18e68e510c82b958664ea134545f",
    "train_256_places365standard.tar": "53ca1c756c3d1e7809517cc47c5561c5",
    "train_256_places365challenge.tar": "741915038a5e3471ec7332404dfb64ef",
    "val_large.tar": "9b71c4993ad89d2d8bcbdc4aef38042f",
    "val_256.tar": "e27b17d8d44f4af9a78502beb927f808",
}


def _places(edition: str, size: str) -> dict[str, Split]:
    """Return the splits with labels of one edition ("standard", "challenge") in one size ("large", "256")."""

    def split(name: str, files: tuple[str, ...], edition: str, pictures: str) -> Split:
        places = (f"filelist_places365-{edition}.tar", pictures)
        return Split(
            {"split": name, "small": size == "256"},
            ("categories_places365.txt", *files),
            tuple(Archive(place, _PLACES_ARCHIVES[place], f"{_PLACES_URL}/{place}") for place in places),
        )

    return {
        "train": split(
            f"train-{edition}",
            (f"places365_train_{edition}.txt", f"data_{size}_{edition}/**"),
            edition,
            f"train_{size}_places365{edition}.tar",
        ),
        "val": split("val", ("places365_val.txt", f"val_{size}/**"), "standard", f"val_{size}.tar"),
    }


_LFW_MD5 = {
    "lfw-py/lfw-names.txt": "a6d0a479bd074669f656265a6e693f6d",
    "lfw-py/people.txt": "450f0863dd89e85e73936a6d71a3474b",
    "lfw-py/peopleDevTest.txt": "e4bf5be0a43b5dcd9dc5ccfcb8fb19c5",
    "lfw-py/peopleDevTrain.txt": "54eaac34beb6d042ed3a7d883e247a21",
}
_LFW_ARCHIVES = {
    "original": ("lfw", Archive("lfw-py/lfw.tgz", "a17d05bd522c52d84eca14327a23d494")),
    "funneled": ("lfw_funneled", Archive("lfw-py/lfw-funneled.tgz", "1b42dfed7d15c9b2dd63d5e5840c86ad")),
    "deepfunneled": (
        "lfw-deepfunneled",
        Archive("lfw-py/lfw-deepfunneled.tgz", "68331da3eb755a505a502b5aacb3c201"),
    ),
}


def _lfw(image_set: str, **lists: str) -> dict[str, Split]:
    folder, archive = _LFW_ARCHIVES[image_set]
    return {
        name: Split(
            {"split": name, "image_set": image_set},
            ("lfw-py/lfw-names.txt", f"lfw-py/{people}", f"lfw-py/{folder}/**"),
            (
                archive,
                *(Archive(place, _LFW_MD5[place]) for place in ("lfw-py/lfw-names.txt", f"lfw-py/{people}")),
            ),
        )
        for name, people in lists.items()
    }


_CELEBA_MD5 = {
    "celeba/list_attr_celeba.txt": "75e246fa4810816ffd6ee81facbd244c",
    "celeba/identity_CelebA.txt": "32bd1bd63d3c78cd57e08160ec5ed1e2",
    "celeba/list_bbox_celeba.txt": "00566efa6fedff7a56946cd1c10f1c16",
    "celeba/list_landmarks_align_celeba.txt": "cc24ecafdb5b50baae59b03474781f8c",
    "celeba/list_eval_partition.txt": "d32c9cbf5e040fd4025c592c306e6668",
}


def _celeba(target: str) -> dict[str, Split]:
    archives = (
        Archive("celeba/img_align_celeba.zip", "00d2c5bc6d35e252742224ab0c1e8fcb"),
        *(Archive(place, md5) for place, md5 in _CELEBA_MD5.items()),
    )
    return {
        name: Split(
            {"split": name, "target_type": target}, (*_CELEBA_MD5, "celeba/img_align_celeba/**"), archives
        )
        for name in ("train", "valid", "test")
    }


_INATURALIST = {
    "2017": ("2017/train_val_images.tar.gz", "7c784ea5e424efaec655bd392f87301f"),
    "2018": ("2018/train_val2018.tar.gz", "b1c6952ce38f31868cc50ea72d066cc3"),
    "2019": ("2019/train_val2019.tar.gz", "c60a6e2962c9b8ccbd458d12c8582644"),
    "2021_train": ("2021/train.tar.gz", "e0526d53c7f7b2e3167b2b43bb2690ed"),
    "2021_train_mini": ("2021/train_mini.tar.gz", "db6ed8330e634445efc8fec83ae81442"),
    "2021_valid": ("2021/val.tar.gz", "f6f6e0e242e3d4c9569ba56400938afc"),
}


def _inaturalist(**versions: str) -> dict[str, Split]:
    made = {}
    for name, version in versions.items():
        path, md5 = _INATURALIST[version]
        url = f"https://ml-inat-competition-datasets.s3.amazonaws.com/{path}"
        made[name] = Split({"version": version}, (f"{version}/**",), (Archive(f"{version}.tgz", md5, url),))
    return made


COLLECTIONS: dict[str, Entry] = {
    "places365": Entry(
        "Places365",
        _places("standard", "large"),
        md5=_PLACES_MD5,
        classes="class_to_idx",
        listed="imgs",
        variants={
            "small": {"splits": _places("standard", "256")},
            "challenge": {"splits": _places("challenge", "large")},
            "challenge-small": {"splits": _places("challenge", "256")},
        },
        default="standard",
        citation="B. Zhou, A. Lapedriza, A. Khosla, A. Oliva, A. Torralba: Places, IEEE TPAMI 40(6), 2018",
    ),
    "lfw-people": Entry(
        "LFWPeople",
        _lfw("funneled", train="peopleDevTrain.txt", test="peopleDevTest.txt"),
        md5=_LFW_MD5,
        fetch="none",
        classes="class_to_idx",
        listed="data",
        variants={
            "original": {"splits": _lfw("original", train="peopleDevTrain.txt", test="peopleDevTest.txt")},
            "deepfunneled": {
                "splits": _lfw("deepfunneled", train="peopleDevTrain.txt", test="peopleDevTest.txt")
            },
            "10fold": {"splits": _lfw("funneled", **{"10fold": "people.txt"})},
        },
        default="funneled",
        citation="G. B. Huang, M. Ramesh, T. Berg, E. Learned-Miller: Labeled Faces in the Wild, 2007",
    ),
    "celeba": Entry(
        "CelebA",
        _celeba("attr"),
        md5=_CELEBA_MD5,
        field_names=("image", "attributes"),
        variants={"identity": {"splits": _celeba("identity"), "field_names": ("image", "label")}},
        default="attr",
        citation="Z. Liu, P. Luo, X. Wang, X. Tang: Deep Learning Face Attributes in the Wild, ICCV 2015",
    ),
    "inaturalist": Entry(
        "INaturalist",
        _inaturalist(train="2021_train", val="2021_valid"),
        classes="all_categories",
        variants={
            "mini": {"splits": _inaturalist(train="2021_train_mini", val="2021_valid")},
            **{year: {"splits": _inaturalist(train=year)} for year in ("2017", "2018", "2019")},
        },
        default="2021",
    ),
}
