"""python -m foldgrad.course start DIR | check N.M ... | status; run the last two inside DIR"""
import pathlib
import re
import sys

from foldgrad.course import CHAPTERS, check, exercises, skeleton


def page(text):
    """Returns a chapter's text. Links into foldgrad's source tree, which a student may not have, become paths."""
    return re.sub(r"\[[^]]+\]\((?:\.\./)+([^)]+)\)", r"`\1`", text)


def start(directory):
    """Writes the chapters' texts and the files to fill in. Keeps files that already exist."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in CHAPTERS:
        for name, text in ((path.stem + ".md", page(path.with_suffix(".md").read_text())),
                           (path.name, skeleton(path.read_text()))):
            if not (directory / name).exists():
                (directory / name).write_text(text)
    print(f"cd {directory}, read {CHAPTERS[0].stem}.md, fill in {CHAPTERS[0].name}, then:\n"
          "python -m foldgrad.course check 1.1\n`start` keeps files that already exist.")


def told(exercise):
    """Checks an exercise in the student's file in this folder. Returns the message, or None if it passes."""
    path = pathlib.Path(CHAPTERS[int(exercise.split(".")[0]) - 1].name)
    if not path.exists():
        sys.exit(f"there is no {path} here; go to the folder that `start` made, or make one here: "
                 "python -m foldgrad.course start .")
    return check(exercise, path.read_text(), path)


def main(words):
    known = exercises()
    usage = f"usage: {__doc__}\nexercises: {', '.join(known)}; a chapter number selects all exercises of the chapter"
    if words in (["--help"], ["-h"]):
        print(usage)
        return 0
    command, names = (words or [""])[0], words[1:]
    if command == "start" and len(names) == 1:
        return start(pathlib.Path(names[0]))
    if command == "status" and not names:
        left = []
        for exercise, functions in known.items():
            answer = told(exercise)
            left += [exercise] if answer else []
            state = "solved" if not answer else "not begun" if answer == "  not begun" else "not yet"
            print(f"{exercise:6}{state:11}{', '.join(functions)}")
        print(f"{len(known) - len(left)} of {len(known)} solved" + (f"; next: {left[0]}" if left else ""))
        return 0
    numbers = {part for exercise in known for part in (exercise, exercise.split(".")[0])}
    if command == "check" and (unknown := set(names) - numbers):
        sys.exit(f"there is no exercise or chapter {', '.join(sorted(unknown))}; exercises: {', '.join(known)}")
    chosen = [e for name in names for e in known if e == name or e.split(".")[0] == name]
    if command != "check" or not chosen:
        sys.exit(usage)
    answers = {exercise: told(exercise) for exercise in chosen}
    for exercise, answer in answers.items():
        print(f"{exercise} solved" if answer is None else f"{exercise} not yet\n{answer}")
    return int(any(answers.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
