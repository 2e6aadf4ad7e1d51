"""Randomness is never frozen: random steps are refused by name, hidden ones by reading twice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects import Items, Pictures, image, left_behind, pixels
from torch.utils.data import ConcatDataset, Subset
from torchvision import transforms
from torchvision.datasets import FakeData
from torchvision.transforms import v2

import dscompile
from dscompile.errors import RandomTransformError


class Transformed(Pictures):
    def __init__(self, transform: Any, count: int = 10) -> None:
        super().__init__(count)
        self.transform = transform

    def __getitem__(self, index: int) -> Any:
        picture, label = super().__getitem__(index)
        return self.transform(picture), label


RANDOM = {
    "RandomCrop": lambda: transforms.RandomCrop(4, padding=1),
    "RandomHorizontalFlip": lambda: transforms.RandomHorizontalFlip(),
    "RandomRotation": lambda: transforms.RandomRotation(10),
    "RandomErasing": lambda: transforms.RandomErasing(),
    "RandomApply": lambda: transforms.RandomApply([transforms.Grayscale(3)]),
    "RandomChoice": lambda: transforms.RandomChoice([transforms.Grayscale(3)]),
    "ColorJitter": lambda: transforms.ColorJitter(0.5),
    "AutoAugment": lambda: transforms.AutoAugment(),
    "TrivialAugmentWide": lambda: transforms.TrivialAugmentWide(),
    "RandAugment": lambda: v2.RandAugment(),
    "GaussianBlur": lambda: v2.GaussianBlur(3),
    "ElasticTransform": lambda: v2.ElasticTransform(),
    "RandomPhotometricDistort": lambda: v2.RandomPhotometricDistort(),
}


@pytest.mark.parametrize("name", RANDOM)
def test_a_random_step_is_refused_by_name(name: str, store: Path) -> None:
    step = RANDOM[name]()
    for dataset, options in (
        (Transformed(step), {}),
        ("synthetic:train=9,test=5,size=8", {"transform": step}),
    ):
        with pytest.raises(RandomTransformError, match=rf"{name}\b.*loader"):
            dscompile.build(dataset, store=store, **options)
    assert not store.exists()


@pytest.mark.parametrize(
    "nest",
    [
        lambda step: transforms.Compose([transforms.Grayscale(3), step]),
        lambda step: v2.Compose([v2.Compose([v2.Resize(4), step])]),
        lambda step: torch.nn.Sequential(torch.nn.Identity(), step),
        lambda step: {"train": [step, None], "test": ()}["train"][0],
        lambda step: transforms.Compose([transforms.RandomApply([step], p=0.0), transforms.Compose((step,))]),
    ],
)
def test_a_nested_random_step_is_found(nest: Any, store: Path) -> None:
    dataset = Transformed(nest(transforms.RandomCrop(4)))
    with pytest.raises(
        RandomTransformError, match=r"RandomCrop at .*transform.*dscompile\.augment\.RandomCrop"
    ):
        dscompile.build(dataset, store=store)
    for wrapped in (Subset(dataset, [1, 2]), ConcatDataset([Pictures(3), dataset])):
        with pytest.raises(RandomTransformError, match="RandomCrop"):
            dscompile.build(wrapped, store=store)
    assert not store.exists()


def test_every_random_step_is_named(store: Path) -> None:
    both = transforms.Compose([transforms.RandomCrop(4), transforms.RandomHorizontalFlip()])
    with pytest.raises(RandomTransformError) as caught:
        dscompile.build(Transformed(both), store=store)
    message = str(caught.value)
    assert "RandomCrop at transform.transforms[0]" in message
    assert "RandomHorizontalFlip at transform.transforms[1]" in message
    assert "augment=[dscompile.augment.RandomCrop(…), dscompile.augment.RandomHorizontalFlip(…)]" in message


def test_a_torchvision_dataset_with_a_random_step(store: Path) -> None:
    with pytest.raises(RandomTransformError, match=r"RandomCrop at .*transform"):
        dscompile.build(FakeData(4, (3, 8, 8), transform=transforms.RandomCrop(4)), store=store)


def test_a_step_that_never_happens_is_not_random(store: Path) -> None:
    step = transforms.Compose([transforms.RandomHorizontalFlip(p=0), transforms.RandomGrayscale(p=0.0)])
    compiled = dscompile.compile(Transformed(step), store=store)
    assert np.array_equal(compiled[3][0].permute(1, 2, 0).numpy(), pixels(10)[3])


class RandomCrop:
    """A namesake of torchvision's that does nothing random."""

    def __call__(self, picture: Any) -> Any:
        return picture


def test_a_namesake_is_not_torchvisions(store: Path) -> None:
    assert dscompile.build(Transformed(RandomCrop()), store=store).built


class Mine(transforms.RandomCrop):
    """A subclass that is not random."""

    def forward(self, img: Any) -> Any:
        return img


def test_a_subclass_is_judged_by_what_it_does(store: Path) -> None:
    assert dscompile.build(Transformed(Mine(4)), store=store).built


def flipped(picture: Any, chance: float) -> Any:
    return picture.transpose(0) if chance < 0.5 else picture


OWN = np.random.default_rng(3)
HIDDEN = {
    "python": lambda picture: flipped(picture, random.random()),
    "numpy": lambda picture: flipped(picture, np.random.rand()),
    "torch": lambda picture: flipped(picture, torch.rand(()).item()),
    "another torchvision object": lambda picture: transforms.RandomHorizontalFlip()(picture),
    "a generator of its own": lambda picture: flipped(picture, OWN.random()),
}


@pytest.mark.usefixtures("same_generators")
@pytest.mark.parametrize("kind", list(HIDDEN)[:3])
def test_hidden_randomness_is_found(kind: str, store: Path) -> None:
    with pytest.raises(RandomTransformError, match=r"split 'train', sample \d+: .*two different ones"):
        dscompile.build(Transformed(HIDDEN[kind], 16), store=store)
    assert left_behind(store) == []


@pytest.mark.usefixtures("same_generators")
@pytest.mark.parametrize("kind", list(HIDDEN)[:3])
def test_hidden_randomness_of_a_transform_is_found(kind: str, store: Path) -> None:
    with pytest.raises(RandomTransformError, match="sample"):
        dscompile.build("synthetic:train=20,test=10,size=8", transform=HIDDEN[kind], store=store)
    assert left_behind(store) == []


def test_hidden_randomness_of_a_generator_is_found(store: Path) -> None:
    for kind in list(HIDDEN)[3:]:
        with pytest.raises(RandomTransformError, match="sample"):
            dscompile.build(Transformed(HIDDEN[kind], 16), store=store, version="1")


class Rare(Items):
    """One sample of a thousand is random: the last one."""

    def __getitem__(self, index: int) -> Any:
        return float(np.random.rand()) if index == len(self) - 1 else 0.0


def test_the_first_and_the_last_sample_are_looked_at(store: Path) -> None:
    with pytest.raises(RandomTransformError, match="sample 999"):
        dscompile.build(Rare([None] * 1000), store=store)


def test_equal_samples_are_not_taken_for_random(store: Path) -> None:
    nan = [torch.tensor([float("nan"), -0.0]), np.array([1 + 2j], np.complex64), image(pixels(1)[0])]
    assert dscompile.build(Items([tuple(nan)] * 3), store=store, allow_nonfinite=True).built


def test_a_sample_is_not_changed_for_the_user(store: Path) -> None:
    array = np.zeros((2, 3), np.float32)
    dscompile.build(Items([array] * 4), store=store)
    assert not array.any()
