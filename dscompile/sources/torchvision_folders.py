"""Table of the torchvision datasets that take all pictures of some folders. Plain data."""

from __future__ import annotations

from typing import Any

from dscompile.sources.torchvision_entry import Archive, Entry, Split, by_split


def _imagenette(size: str, folder: str, md5: str) -> dict[str, Split]:
    archive = Archive(f"{folder}.tgz", md5, f"https://s3.amazonaws.com/fast-ai-imageclas/{folder}.tgz")
    option = {"size": size}
    return by_split((f"{folder}/{{}}/**",), (archive,), train=option, val=option)


def _imagenet(split: str, md5: str) -> Split:
    return Split(
        {"split": split},
        ("meta.bin", f"{split}/**"),
        (
            Archive("ILSVRC2012_devkit_t12.tar.gz", "fa75699e90414af021442c21a62c3abf"),
            Archive(f"ILSVRC2012_img_{split}.tar", md5),
        ),
    )


def _one(options: dict[str, Any], files: tuple[str, ...], archive: Archive) -> dict[str, Split]:
    """Return the one split of a dataset without splits."""
    return {"train": Split(options, files, (archive,))}


def _omniglot(part: str, md5: str) -> Split:
    url = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
    archive = Archive(f"omniglot-py/images_{part}.zip", md5, f"{url}/images_{part}.zip")
    return Split({"background": part == "background"}, (f"omniglot-py/images_{part}/**",), (archive,))


_CLIP = "https://openaipublic.azureedge.net/clip/data"

FOLDERS: dict[str, Entry] = {
    "eurosat": Entry(
        "EuroSAT",
        _one({}, ("eurosat/2750/**",), Archive("eurosat/EuroSAT.zip", "c8fa014336c82ac7804f0398fcb19387")),
        citation="P. Helber, B. Bischke, A. Dengel, D. Borth: EuroSAT, IEEE JSTARS 12(7), 2019",
    ),
    "rendered-sst2": Entry(
        "RenderedSST2",
        by_split(
            ("rendered-sst2/{}/**",),
            (Archive("rendered-sst2.tgz", "2384d08e9dcfa4bd55b324e610496ee5", f"{_CLIP}/rendered-sst2.tgz"),),
            train={},
            val={"word": "valid"},
            test={},
        ),
    ),
    "sun397": Entry(
        "SUN397",
        _one(
            {},
            ("SUN397/ClassName.txt", "SUN397/**"),
            Archive(
                "SUN397.tar.gz",
                "8ca2778205c41d23104230ba66911c7a",
                "http://vision.princeton.edu/projects/2010/SUN/SUN397.tar.gz",
            ),
        ),
        citation="J. Xiao, J. Hays, K. Ehinger, A. Oliva, A. Torralba: SUN Database, CVPR 2010",
    ),
    "country211": Entry(
        "Country211",
        by_split(
            ("country211/{}/**",),
            (Archive("country211.tgz", "84988d7644798601126c29e9877aab6a", f"{_CLIP}/country211.tgz"),),
            train={},
            valid={},
            test={},
        ),
    ),
    "caltech101": Entry(
        "Caltech101",
        _one(
            {},
            ("caltech101/101_ObjectCategories/**",),
            Archive(
                "caltech101/caltech-101.zip",
                "3138e1922a9193bfa496528edbbc45d0",
                "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
            ),
        ),
        needs=("scipy",),
        classes="categories",
    ),
    "caltech256": Entry(
        "Caltech256",
        _one(
            {},
            ("caltech256/256_ObjectCategories/**",),
            Archive(
                "caltech256/256_ObjectCategories.tar",
                "67b4f42ca05d46448c6bb8ecd2220f6d",
                "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
            ),
        ),
        classes="categories",
    ),
    "omniglot": Entry(
        "Omniglot",
        {
            "background": _omniglot("background", "68d2efa1b9178cc56df9314c21c6e718"),
            "evaluation": _omniglot("evaluation", "6b91aef0f799c5bb55b94e3f2daec811"),
        },
        classes="_characters",
        citation="B. M. Lake, R. Salakhutdinov, J. B. Tenenbaum: Human-Level Concept Learning through "
        "Probabilistic Program Induction, Science 350, 2015",
    ),
    "imagenette": Entry(
        "Imagenette",
        _imagenette("full", "imagenette2", "fe2fc210e6bb7c5664d602c3cd71e612"),
        variants={
            "320px": {"splits": _imagenette("320px", "imagenette2-320", "3df6f0d01a2c9592104656642f5e78a3")},
            "160px": {"splits": _imagenette("160px", "imagenette2-160", "e793b78cc4c9e9a4ccc0c1155377a412")},
        },
        default="full",
    ),
    "imagenet": Entry(
        "ImageNet",
        {
            "train": _imagenet("train", "1d675b47d978889d74fa0da5fadfb00e"),
            "val": _imagenet("val", "29b22e2961454d5413ddabcf34fc5622"),
        },
        fetch="unpack",
        citation="O. Russakovsky et al.: ImageNet Large Scale Visual Recognition Challenge, IJCV 115, 2015",
    ),
}
