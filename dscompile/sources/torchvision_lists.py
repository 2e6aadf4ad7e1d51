"""Table of the torchvision datasets that take their pictures from a list. Plain data."""

from __future__ import annotations

from dscompile.sources.torchvision_entry import Archive, Entry, Split, by_split


def _dtd(partition: int) -> dict[str, Split]:
    archive = Archive(
        "dtd/dtd-r1.0.1.tar.gz",
        "fff73e5086ae6bdbea199a49dfb8a4c1",
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
    )
    patterns = (f"dtd/dtd/labels/{{}}{partition}.txt", "dtd/dtd/images/**")
    option = {"partition": partition}
    return by_split(patterns, (archive,), train=option, val=option, test=option)


def _aircraft(level: str, names: str) -> dict[str, Split]:
    data = "fgvc-aircraft-2013b/data"
    archive = Archive(
        "fgvc-aircraft-2013b.tar.gz",
        None,
        "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
    )
    patterns = (f"{data}/{names}.txt", f"{data}/images_{level}_{{}}.txt", f"{data}/images/*")
    option = {"annotation_level": level}
    return by_split(patterns, (archive,), train=option, val=option, test=option)


def _pets(target: str, *more: str) -> dict[str, Split]:
    url = "https://www.robots.ox.ac.uk/~vgg/data/pets/data"
    archives = (
        Archive("oxford-iiit-pet/images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c", f"{url}/images.tar.gz"),
        Archive(
            "oxford-iiit-pet/annotations.tar.gz",
            "95a8c909bbe2e81eed6a22bccdf3f68f",
            f"{url}/annotations.tar.gz",
        ),
    )
    patterns = ("oxford-iiit-pet/annotations/{}.txt", "oxford-iiit-pet/images/*", *more)
    option = {"target_types": target}
    return by_split(patterns, archives, trainval=option, test=option)


def _pcam(**splits: tuple[str, str, str]) -> dict[str, Split]:
    stem = "pcam/camelyonpatch_level_2_split"
    made = {}
    for name, (word, *checksums) in splits.items():
        files = (f"{stem}_{word}_x.h5", f"{stem}_{word}_y.h5")
        archives = tuple(Archive(f"{file}.gz", md5) for file, md5 in zip(files, checksums, strict=True))
        made[name] = Split({"split": name}, files, archives)
    return made


def _gtsrb(split: str, files: tuple[str, ...], archives: dict[str, str]) -> Split:
    url = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370"
    return Split(
        {"split": split},
        files,
        tuple(Archive(f"gtsrb/{name}", md5, f"{url}/{name}") for name, md5 in archives.items()),
    )


_FLOWERS = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102"
_FLOWERS_MD5 = {
    "flowers-102/imagelabels.mat": "e0620be6f572b9609742df49c70aed4d",
    "flowers-102/setid.mat": "a5357ecc9cb78c4bef273ce3793fc85c",
}

LISTS: dict[str, Entry] = {
    "gtsrb": Entry(
        "GTSRB",
        {
            "train": _gtsrb(
                "train",
                ("gtsrb/GTSRB/Training/**",),
                {"GTSRB-Training_fixed.zip": "513f3c79a4c5141765e10e952eaa2478"},
            ),
            "test": _gtsrb(
                "test",
                ("gtsrb/GT-final_test.csv", "gtsrb/GTSRB/Final_Test/Images/**"),
                {
                    "GTSRB_Final_Test_Images.zip": "c7e4e6327067d32654124b0fe9e82185",
                    "GTSRB_Final_Test_GT.zip": "fe31e9c9270bbcd7b84b7f21a9d9d9e5",
                },
            ),
        },
        listed="_samples",
        citation="J. Stallkamp, M. Schlipsing, J. Salmen, C. Igel: Man vs. Computer: Benchmarking Machine "
        "Learning Algorithms for Traffic Sign Recognition, Neural Networks 32, 2012",
    ),
    "food101": Entry(
        "Food101",
        by_split(
            ("food-101/meta/{}.json", "food-101/images/**"),
            (
                Archive(
                    "food-101.tar.gz",
                    "85eeb15f3717b99a5da872d97d918f87",
                    "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
                ),
            ),
            train={},
            test={},
        ),
        listed="_image_files",
        citation="L. Bossard, M. Guillaumin, L. Van Gool: Food-101, ECCV 2014",
    ),
    "flowers102": Entry(
        "Flowers102",
        by_split(
            (*_FLOWERS_MD5, "flowers-102/jpg/*"),
            (
                Archive(
                    "flowers-102/102flowers.tgz",
                    "52808999861908f626f3c1f4e79d11fa",
                    f"{_FLOWERS}/102flowers.tgz",
                ),
                *(Archive(place, md5, f"{_FLOWERS}/{place[12:]}") for place, md5 in _FLOWERS_MD5.items()),
            ),
            train={},
            val={},
            test={},
        ),
        md5=_FLOWERS_MD5,
        needs=("scipy",),
        listed="_image_files",
        citation="M.-E. Nilsback, A. Zisserman: Automated Flower Classification over a Large Number of "
        "Classes, ICVGIP 2008",
    ),
    "dtd": Entry(
        "DTD",
        _dtd(1),
        listed="_image_files",
        variants={str(partition): {"splits": _dtd(partition)} for partition in range(2, 11)},
        default="1",
        citation="M. Cimpoi et al.: Describing Textures in the Wild, CVPR 2014",
    ),
    "fgvc-aircraft": Entry(
        "FGVCAircraft",
        _aircraft("variant", "variants"),
        listed="_image_files",
        variants={
            "family": {"splits": _aircraft("family", "families")},
            "manufacturer": {"splits": _aircraft("manufacturer", "manufacturers")},
        },
        default="variant",
        citation="S. Maji et al.: Fine-Grained Visual Classification of Aircraft, arXiv:1306.5151",
    ),
    "stanford-cars": Entry(
        "StanfordCars",
        {
            "train": Split(
                {"split": "train"},
                (
                    "stanford_cars/devkit/cars_meta.mat",
                    "stanford_cars/devkit/cars_train_annos.mat",
                    "stanford_cars/cars_train/*",
                ),
            ),
            "test": Split(
                {"split": "test"},
                (
                    "stanford_cars/devkit/cars_meta.mat",
                    "stanford_cars/cars_test_annos_withlabels.mat",
                    "stanford_cars/cars_test/*",
                ),
            ),
        },
        fetch="none",
        needs=("scipy",),
        listed="_samples",
    ),
    "oxford-iiit-pet": Entry(
        "OxfordIIITPet",
        _pets("category"),
        listed="_images",
        variants={
            "binary-category": {"splits": _pets("binary-category"), "classes": "bin_classes"},
            "segmentation": {
                "splits": _pets("segmentation", "oxford-iiit-pet/annotations/trimaps/*"),
                "classes": "",  # those of `.classes` are breeds, the mask's ids are not
                "field_names": ("image", "mask"),
            },
        },
        default="category",
        citation="O. M. Parkhi, A. Vedaldi, A. Zisserman, C. V. Jawahar: Cats and Dogs, CVPR 2012",
        licence="CC BY-SA 4.0",
    ),
    "pcam": Entry(
        "PCAM",
        _pcam(
            train=("train", "1571f514728f59376b705fc836ff4b63", "35c2d7259d906cfc8143347bb8e05be7"),
            val=("valid", "d5b63470df7cfa627aeec8b9dc0c066e", "2b85f58b927af9964a4c15b8f7e8f179"),
            test=("test", "d8c2d60d490dbd479f8199bdfa0cf6ec", "60a7035772fbdb7f34eb86d4420cf66a"),
        ),
        needs=("h5py",),
        citation="B. S. Veeling, J. Linmans, J. Winkens, T. Cohen, M. Welling: Rotation Equivariant CNNs for "
        "Digital Pathology, arXiv:1806.03962",
    ),
    "clevr-classification": Entry(
        "CLEVRClassification",
        # The test split has no labels.
        by_split(
            ("clevr/CLEVR_v1.0/scenes/CLEVR_{}_scenes.json", "clevr/CLEVR_v1.0/images/{}/*"),
            (
                Archive(
                    "clevr/CLEVR_v1.0.zip",
                    "b11922020e72d0cd9154779b2d3d07d2",
                    "https://dl.fbaipublicfiles.com/clevr/CLEVR_v1.0.zip",
                ),
            ),
            train={},
            val={},
        ),
        citation="J. Johnson et al.: CLEVR, arXiv:1612.06890",
        licence="CC BY 4.0",
    ),
}
