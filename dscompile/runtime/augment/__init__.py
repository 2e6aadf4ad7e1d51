"""Augmentations by name: each in a file of its own, with one line here."""

from dscompile.runtime.augment.crop import CropDraw, RandomCrop
from dscompile.runtime.augment.flip import RandomHorizontalFlip
from dscompile.runtime.augment.pixels import PixelMap
from dscompile.runtime.augment.step import Augmentation, apply_all

__all__ = ["Augmentation", "CropDraw", "PixelMap", "RandomCrop", "RandomHorizontalFlip", "apply_all"]
