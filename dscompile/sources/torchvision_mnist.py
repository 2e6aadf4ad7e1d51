"""Table of torchvision's MNIST family: pictures and labels in IDX files. Plain data."""

from __future__ import annotations

from dscompile.sources.torchvision_entry import Archive, Entry, Split


def _idx(folder: str, url: str, train: tuple[str, str], test: tuple[str, str]) -> dict[str, Split]:
    """Return the splits of a set in MNIST's files from the md5 of its (pictures, labels) archives."""
    splits = {}
    for name, prefix, checksums in (("train", "train", train), ("test", "t10k", test)):
        files = (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
        archives = tuple(
            Archive(f"{folder}/raw/{file}.gz", md5, f"{url}{file}.gz")
            for file, md5 in zip(files, checksums, strict=True)
        )
        splits[name] = Split(
            {"train": name == "train"}, tuple(f"{folder}/raw/{file}" for file in files), archives
        )
    return splits


def _emnist(variant: str) -> dict[str, Split]:
    archive = Archive(
        "EMNIST/raw/gzip.zip",
        "58c8d27c78d21e728a6bc7b3cc06412e",
        "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
    )
    return {
        name: Split(
            {"split": variant, "train": name == "train"},
            (
                f"EMNIST/raw/emnist-{variant}-{name}-images-idx3-ubyte",
                f"EMNIST/raw/emnist-{variant}-{name}-labels-idx1-ubyte",
            ),
            (archive,),
        )
        for name in ("train", "test")
    }


def _qmnist(what: str, stem: str, suffix: str, checksums: tuple[str, str]) -> Split:
    url = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"
    files = (f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx2-int")
    archives = tuple(
        Archive(f"QMNIST/raw/{file}{suffix}", md5, f"{url}{file}{suffix}")
        for file, md5 in zip(files, checksums, strict=True)
    )
    return Split({"what": what}, tuple(f"QMNIST/raw/{file}" for file in files), archives)


MNIST_FAMILY: dict[str, Entry] = {
    "mnist": Entry(
        "MNIST",
        _idx(
            "MNIST",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432"),
            ("9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        layout="HW",
        citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-Based Learning Applied to Document "
        "Recognition, Proc. IEEE 86(11), 1998",
    ),
    "fashion-mnist": Entry(
        "FashionMNIST",
        _idx(
            "FashionMNIST",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe"),
            ("bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
        layout="HW",
        citation="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, arXiv:1708.07747",
        licence="MIT",
    ),
    "kmnist": Entry(
        "KMNIST",
        _idx(
            "KMNIST",
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
            ("bdb82020997e1d708af4cf47b453dcf7", "e144d726b3acfaa3e44228e80efcd344"),
            ("5c965bf0a639b31b8f53240b1b52f4d7", "7320c461ea6c1c855c0b718fb2a4b134"),
        ),
        layout="HW",
        citation="T. Clanuwat et al.: Deep Learning for Classical Japanese Literature, arXiv:1812.01718",
        licence="CC BY-SA 4.0",
    ),
    "qmnist": Entry(
        "QMNIST",
        {
            "train": _qmnist(
                "train",
                "qmnist-train",
                ".gz",
                ("ed72d4157d28c017586c42bc6afe6370", "0058f8dd561b90ffdd0f734c6a30e5e4"),
            ),
            "test": _qmnist(
                "test",
                "qmnist-test",
                ".gz",
                ("1394631089c404de565df7b7aeaf9412", "5b5b05890a5e13444e108efe57b788aa"),
            ),
        },
        layout="HW",
        variants={
            "nist": {
                "splits": {
                    "train": _qmnist(
                        "nist",
                        "xnist",
                        ".xz",
                        ("7f124b3b8ab81486c9d8c2749c17f834", "5ed0e788978e45d4a8bd4b7caec3d79d"),
                    )
                }
            }
        },
        citation="C. Yadav, L. Bottou: Cold Case: The Lost MNIST Digits, arXiv:1905.10498",
    ),
    "emnist": Entry(
        "EMNIST",
        {},
        layout="HW",
        variants={
            variant: {"splits": _emnist(variant)}
            for variant in ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
        },
        citation="G. Cohen, S. Afshar, J. Tapson, A. van Schaik: EMNIST, arXiv:1702.05373",
    ),
}
