"""`_native.pyi` says what the module has, and nothing needs more than NumPy before it is asked for."""

import ast
import pathlib
import subprocess
import sys

import tenfill
from tenfill import _native


def names(body):
    kinds = ast.FunctionDef, ast.ClassDef
    return {node.name: node for node in body if isinstance(node, kinds)}


def parameters(node):
    arguments = node.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            if one.arg not in ("self", "cls")]


def told(function):
    import inspect

    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def test_the_stub_is_the_module():
    text = (pathlib.Path(tenfill.__file__).parent / "_native.pyi").read_text()
    stub = names(ast.parse(text).body)
    # A hook of the tests, which wheels for others do not have.
    module = {name for name in dir(_native) if not name.startswith("__")} - {"_panic"}
    assert set(stub) == module
    for name, node in stub.items():
        real = getattr(_native, name)
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == told(real), name
            continue
        own = {one for one in vars(real) if not one.startswith("__") or one in
               ("__arrow_c_stream__", "__iter__", "__next__")}
        inside = names(node.body)
        assert set(inside) - {"__new__"} == own, name
        for method, about in inside.items():
            if method != "__new__" and not about.decorator_list and not method.startswith("__"):
                assert parameters(about) == told(getattr(real, method)), (name, method)


def test_only_numpy_is_imported():
    script = "import sys, tenfill, tenfill.callbacks; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pandas", "polars", "pyarrow", "scipy", "sklearn", "matplotlib", "duckdb"} & set(found)
