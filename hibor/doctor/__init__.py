"""`python -m hibor.doctor`: what stands between this phone and a run, and what to do about it (design 5).

Rules of this package:

* It spends no quota: no control of the trigger is ever tapped, by any option. What has to be downloaded by
  hand is downloaded by a person, while the doctor only looks.
* Everything a check finds is one row: state, what was seen, and a fix where one is needed. A check that
  cannot be made because an earlier one failed is said to be skipped.
* Screens are read by the same functions as in a run; a profile that passes here reads the same there.
"""
