"""Files that loading could run: pickles by their bytes, whatever they are called."""

from pathlib import Path

PICKLED = {".pkl", ".pickle", ".pt", ".pth", ".bin", ".joblib", ".npy", ".npz"}
SAFE_TENSORS = {".safetensors", ".onnx", ".data"}


def pickles(directory: Path) -> list[str]:
    """Files that unpickling would run, by their bytes: pickles, and the archives of torch and numpy around them."""
    found = []
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        data = path.read_bytes()
        archive = data.startswith((b"PK\x03\x04", b"\x93NUMPY"))
        if path.suffix in PICKLED or archive or (data[:1] == b"\x80" and path.suffix not in SAFE_TENSORS):
            found.append(path.name)
    return found
