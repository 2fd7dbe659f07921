"""Makes the files of this folder with Pillow; run it in this folder. Each half of a JPEG image has a single colour."""
import numpy as np
import PIL
from PIL import Image, ImageEnhance, ImageOps
from safetensors.numpy import save_file

FILL = (10, 200, 90)


def halves(mode, left, right):
    image = Image.new(mode, (16, 8), left)
    image.paste(right, (8, 0, 16, 8))
    return image


def picture(height, width, seed):
    """Returns an image of waves and noise. No channel uses the whole range, so autocontrast changes every channel."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(seed).integers(0, 40, (height, width, 3))
    waves = [90 + 60 * np.sin(x / 3 + y / 7), 100 + 80 * np.cos(y / 4 - x / 9), 60 + 3.5 * x + y]
    return Image.fromarray((np.stack(waves, -1) + noise).clip(0, 250).astype(np.uint8))


def affine(image, matrix):
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=FILL)


def operation(image, name, m):
    """Calls Pillow as timm's auto_augment.py does with increasing magnitudes. `m` is the signed level divided by 10."""
    strength = abs(m)
    enhance = {"colour": ImageEnhance.Color, "contrast": ImageEnhance.Contrast,
               "brightness": ImageEnhance.Brightness, "sharpness": ImageEnhance.Sharpness}
    if name in enhance:
        return enhance[name](image).enhance(max(0.1, 1 + 0.9 * m))
    return {
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageOps.invert(image),
        "posterize": lambda: ImageOps.posterize(image, max(1, 4 - int(4 * strength))),
        "solarize": lambda: ImageOps.solarize(image, 256 - int(256 * strength)),
        "rotate": lambda: image.rotate(30 * m, Image.Resampling.BILINEAR, fillcolor=FILL),
        "shear_x": lambda: affine(image, (1, 0.3 * m, 0, 0, 1, 0)),
        "shear_y": lambda: affine(image, (1, 0, 0, 0.3 * m, 1, 0)),
        "translate_x": lambda: affine(image, (1, 0, 0.45 * m * image.width, 0, 1, 0)),
        "translate_y": lambda: affine(image, (1, 0, 0, 0, 1, 0.45 * m * image.height)),
    }[name]()


def middle(image, size):
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return image.resize((size, size), Image.Resampling.BILINEAR, (left, top, left + side, top + side))


OPTIONS = {"quality": 95, "subsampling": 0}
colours = halves("RGB", (200, 40, 90), (10, 160, 250))
colours.save("colours.jpg", **OPTIONS)
colours.save("progressive.jpg", progressive=True, **OPTIONS)
halves("L", 30, 220).save("gray.jpg", quality=95)
halves("CMYK", (10, 20, 30, 40), (200, 100, 50, 0)).save("cmyk.jpg", quality=95)

small, large = picture(19, 23, 1), picture(41, 60, 2)
tensors = {"small": small, "large": large}
for size in (1, 7, 32, 41, 50):
    tensors[f"square {size}"] = middle(large, size)
for name, magnitudes in {
        "autocontrast": [0], "equalize": [0], "invert": [0], "posterize": [0, 0.3, 0.9, 1], "solarize": [0.2, 0.55, 1],
        "rotate": [0.9, -0.4], "shear_x": [0.7, -1], "shear_y": [1, -0.35], "translate_x": [0.5, -0.9],
        "translate_y": [0.8, -0.25], "colour": [0.9, -0.5, 1, -1], "contrast": [0.6, -0.9], "brightness": [0.7, -0.3],
        "sharpness": [0.9, -0.8]}.items():
    for m in magnitudes:
        tensors[f"{name} {m}"] = operation(small, name, m)
save_file({name: np.array(image) for name, image in tensors.items()}, "pillow.safetensors",
          metadata={"Pillow": PIL.__version__, "format": "pt"})
