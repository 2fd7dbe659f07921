"""The course: ten chapters and a capstone. Each has a text to read, functions to fill in, and one check per exercise.

chapters/NAME.py contains the solutions. The student gets the same file without the bodies of the exercises.
"""
import ast
import functools
import importlib
import inspect
import pathlib
import re
import traceback
import types

CHAPTERS = sorted((pathlib.Path(__file__).parent / "chapters").glob("ch*.py"))
MARK = re.compile(r"^ *# Exercise (\d+\.\d+)$")
THINK = {  # a phrase in the message of an exception -> a hint
    "has no gradient": "What fills p.grad, and what clears it? Does the loss depend on the optimizer's Parameters?",
    "got object": "This is not an array. Is it a Parameter, a Tensor or a Var? How do you put each on a tape?",
    "foldgrad._core.Var,": "help() of this function names the types. A tape makes Vars of arrays and Parameters.",
    "incompatible function": "help() of this function lists its arguments; the object before the dot is the first. "
                             "Which one is missing or has the wrong type?",
    "has no attribute": "What is the type of the object before the dot? dir() lists its attributes, help() explains "
                        "them.",
    "zero-size array": "An array is empty here. Which line should have filled it, and has that line run?",
    "'generator'": "Calling a generator function only creates the generator. What runs it and returns its result?",
    "a checkpoint can restore": "A checkpoint saves and restores the Tensors in self.state. What does yours contain?",
    "": "What does this line need, and what does it get? Print types and shapes just before it."}
NO_LINE = "What does the docstring promise? Print the type and the shape of your result."


class NotYet(Exception):
    """Raised if a solution is not correct yet. The message has its result, the wanted result and a hint."""


def expect(holds, think, got=None, wanted=None, case=""):
    """Raises NotYet unless `holds` is true."""
    if not holds:
        rows = (("case", case or None), ("got", got), ("wanted", wanted), ("think", think))
        raise NotYet("\n".join(f"  {name:8}{value}" for name, value in rows if value is not None))


def near(got, wanted, think, case="", tolerance=1e-9, known=()):
    """Raises NotYet, which names the worst element, unless each |got - wanted| is at most tolerance * (1 + |wanted|).

    `known` has a pair (result, hint) for each common mistake. If `got` is such a result, its hint replaces `think`.
    """
    import numpy as np
    expect(got is not None, "Which line sets or returns this?", "None", "an array or a number", case)
    try:
        got, wanted = np.asarray(got, float), np.asarray(wanted, float)
    except (TypeError, ValueError):
        of = f" of {type(got[0]).__name__}" if isinstance(got, list) and got else ""
        expect(False, "The result must be numbers. Which method returns those of a Tensor?",
               f"a {type(got).__name__}{of}", "numbers", case)
    expect(got.shape == wanted.shape, "Which axes are left after a sum, mean or product? It drops its axis "
           "unless keepdims=True." if got.shape else "This is one number. The result has one for each of what?",
           f"shape {got.shape}", f"shape {wanted.shape}", case)
    off = np.where(got == wanted, 0, np.nan_to_num(np.abs(got - wanted) / (1 + np.abs(wanted)), nan=np.inf))
    if off.size and off.max() > tolerance:
        at = np.unravel_index(off.argmax(), off.shape)
        place = f" at {[int(i) for i in at]}" if at else ""
        think = next((text for value, text in known if np.allclose(got, value, 1e-9, 1e-10)), think)
        if np.isnan(got[at]):
            think = "Which line produces the first nan, by 0 / 0, inf - inf or 0 * inf? " + think
        digits = 9 if abs(off[at]) > 1e-8 else 17
        expect(False, think, f"{got[at]:.{digits}g}{place}", f"{wanted[at]:.{digits}g}", case)


def several(got, names):
    """Returns `got`. Raises NotYet unless it is a tuple with one value for each of the names."""
    expect(isinstance(got, tuple) and len(got) == len(names.split()), "Does your function return all of them, in this "
           "order?", f"{len(got)} values" if isinstance(got, tuple) else type(got).__name__, f"a tuple {names}")
    return got


def _guarded(function):
    """Returns a wrapper that raises NotYet if the function changes an argument that is an array or a list."""
    import numpy as np

    def bits(value):
        return value.tobytes() if isinstance(value, np.ndarray) else repr(value) if isinstance(value, list) else None

    @functools.wraps(function)
    def call(*given, **named):
        before = [bits(value) for value in given]
        result = function(*given, **named)
        for name, value, was in zip(inspect.signature(function).parameters, given, before):
            expect(bits(value) == was, f"The caller still needs {name}. Which of your lines changes it in place?",
                   f"{name} changed", f"{name} unchanged", f"after a call of {function.__name__}()")
        return result
    return call


def _marked(source):
    """Yields (exercise, AST node) for each function or class below a line "# Exercise N.M"."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (mark := MARK.match(lines[node.lineno - 2])):
            yield mark[1], node


@functools.cache
def exercises():
    """Returns {exercise: names of its functions} in the order of the course: {"1.1": ["mul"], ...}."""
    found = {}
    for path in CHAPTERS:
        for exercise, node in sorted(_marked(path.read_text()), key=lambda pair: pair[1].lineno):
            found.setdefault(exercise, []).append(node.name)
    return found


def skeleton(source):
    """Returns the student's version of a chapter's file: each exercise keeps only its signature and docstring."""
    lines = source.split("\n")
    for exercise, node in sorted(_marked(source), key=lambda pair: -pair[1].lineno):
        first = node.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        begin = first.end_lineno if documented else first.lineno - 1
        lines[begin:node.end_lineno] = [" " * first.col_offset + f'raise NotImplementedError("exercise {exercise}")']
    return "\n".join(lines)


def load(source, path):
    """Runs `source`, the text of the file `path`, and returns it as a module."""
    module = types.ModuleType(pathlib.Path(path).stem)
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def solution(chapter):
    """Returns the solutions of a chapter as a module."""
    path = CHAPTERS[chapter - 1]
    return load(path.read_text(), path)


def check(exercise, source, path):
    """Checks an exercise in `source`, the text of a student's file. Returns a message, or None if it passes."""
    import numpy as np
    empty = f'NotImplementedError("exercise {exercise}")'
    if source.count(empty) == len(exercises()[exercise]):
        return "  not begun"
    chapter, number = exercise.split(".")
    checks = importlib.import_module(f"{__name__}.checks.{CHAPTERS[int(chapter) - 1].stem}")
    try:
        module = load(source, path)
        for name in exercises()[exercise]:
            homes = [home for home in (module, *vars(module).values()) if name in getattr(home, "__dict__", ())]
            expect(homes, "The check calls it by this name.", f"no {name}", f"a function {name}")
            setattr(homes[0], name, _guarded(getattr(homes[0], name)))
        with np.errstate(all="ignore"):
            getattr(checks, f"check_{number}")(module)
    except NotYet as e:
        return str(e)
    except NotImplementedError as e:
        return f"  first solve {e}, which this one uses" if str(e) not in empty else "  a part of it is still empty"
    except ImportError as e:
        return f"  {e}; docs/course.md says what to install"
    except SyntaxError as e:
        return f"  {e.filename}:{e.lineno}: {e.msg}"
    except Exception as e:
        lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == str(path)]
        text, _, types = str(e).partition(": incompatible function arguments")
        if types:
            text += " got " + types.rsplit("types: ", 1)[-1]
        think = next(told for phrase, told in THINK.items() if phrase in str(e))
        if not lines:
            return f"  got     a result that the check cannot use\n  think   {NO_LINE if think == THINK[''] else think}"
        return f"  {path}:{lines[-1]}: {type(e).__name__}: {text}\n  think   {think}"
    return None
