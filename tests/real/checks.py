"""What scripts of tests/real share that print a line a case, and count those that fail."""

failures = 0


def case(name, *checks):
    """Each of `checks` is a condition and what is printed where it does not hold."""
    global failures
    wrong = [text for holds, text in checks if not holds]
    print(f"{'FAIL' if wrong else 'ok'}  {name}", flush=True)
    for text in wrong:
        print("     ", str(text).replace("\n", "\n      "))
    failures += bool(wrong)
