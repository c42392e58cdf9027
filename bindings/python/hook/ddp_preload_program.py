"""Reads the program of this Python without running it, for ddp_preload. A child process of the preloader imports this."""
import ast
import importlib.machinery
import os
import sys

# Packages that import PyTorch when they are imported.
_IMPORT_TORCH = {"torch", "torchvision", "torchaudio", "accelerate", "lightning", "pytorch_lightning"}
_ENVIRONMENTS = ("environ", "environb")
_ONE_NAME = ("setdefault", "pop", "__setitem__", "__delitem__")


def inspect_program(folder, modules):
    """Returns whether the program imports PyTorch, and where it sets variables before it imports the modules.

    The places are pairs of a place and a name, which is empty if it is not known. `folder` is that of the program.
    """
    path, text = _program(folder)
    tree = ast.parse(text, path)
    nodes = list(_nodes(tree))
    wanted = {name.partition(".")[0] for name in modules}
    wanted |= _IMPORT_TORCH if "torch" in wanted else set()
    # Only an import that is no part of another statement certainly precedes what is below it.
    begins = [_position(node) for node in tree.body for name in _imported(node) if name in wanted]
    begin = min(begins, default=(float("inf"), 0))
    places = [(f"{path}:{node.lineno}", name) for node in nodes for name in _set_variables(node) if _position(node) < begin]
    return any(name in _IMPORT_TORCH for node in nodes for name in _imported(node)), places


def _position(node):
    return node.lineno, node.col_offset


def _program(folder):
    """Returns the file and the text of the program."""
    with open("/proc/self/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    path = sys.argv[0]
    if path in ("-c", "-m"):
        at = len(words) - len(sys.argv)  # of what follows the option, or is one word with it
        before = words[at - 1]
        word = words[at] if before.startswith("-") and before.endswith(path[1]) else words[at].partition(path[1])[2]
        if path == "-c":
            return "<string>", word
        path = _file_of_module(word, [folder, *sys.path])
    elif os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    if not os.path.isfile(path):
        raise ValueError("a pipe can be read only once")
    with open(path, "rb") as file:
        return path, file.read()


def _file_of_module(name, folders):
    """Finds the file of a module, without an import of its packages."""
    for part in name.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, folders)
        folders = spec.submodule_search_locations
    return spec.origin if folders is None else _file_of_module("__main__", folders)


def _nodes(tree):
    """Returns all nodes except those that are only for type checkers."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        waiting.extend(node.orelse if is_for_types else ast.iter_child_nodes(node))


def _imported(node):
    """Returns the first parts of the names of modules."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module.partition(".")[0]]
    return []


def _set_variables(node):
    """Returns the names of environment variables that a node sets or removes."""
    if isinstance(node, ast.ImportFrom):  # under another name, what is done with it is not seen
        return ["" for alias in node.names if alias.name in _ENVIRONMENTS and alias.asname]
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
        targets = getattr(node, "targets", None) or [node.target]
        targets = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
        names = [_text(target.slice) for target in targets if isinstance(target, ast.Subscript) and _is_environment(target.value)]
        names += [name for target in targets if _is_environment(target) for name in _keys(node.value)]
        return names + ([""] if _is_environment(getattr(node, "value", None)) else [])
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    method = node.func.attr
    if method in ("putenv", "unsetenv") or method in _ONE_NAME and _is_environment(node.func.value):
        return [_text(node.args[0]) if node.args else ""]
    if method in ("clear", "popitem") and _is_environment(node.func.value):
        return [""]
    if method == "update" and _is_environment(node.func.value):
        return [name for value in node.args for name in _keys(value)] + [word.arg or "" for word in node.keywords]
    return []


def _is_environment(node):
    return isinstance(node, (ast.Attribute, ast.Name)) and getattr(node, "attr", getattr(node, "id", "")) in _ENVIRONMENTS


def _keys(node):
    return [_text(key) for key in node.keys] if isinstance(node, ast.Dict) else [""]


def _text(node):
    node = getattr(node, "value", node) if type(node).__name__ == "Index" else node  # up to Python 3.8
    value = getattr(node, "value", getattr(node, "s", ""))
    return value.decode(errors="replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""
