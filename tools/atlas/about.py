"""What each play of the atlas is, in a sentence, for who reads the page."""

from __future__ import annotations

from typing import Final

ABOUT: Final = {
    "new_success": "A new report: reserved, tapped once, found on the phone, copied, checked, delivered.",
    "new_released": "The tap is proved not to have started a download; its unit is given back.",
    "new_uncertain_found": "Nobody saw what came of the tap; the file appears late and is delivered.",
    "new_uncertain_lost": "Nobody saw what came of the tap, and no file comes: written off as uncertain.",
    "new_encrypted": "The paid file needs a password and is refused.",
    "new_changed": "The file changes on the phone while it is copied; the changed one is taken.",
    "new_short_pull": "The copy ends before the file does, every time.",
    "new_identical": "The same file stands at the final path already and stands for the paid one.",
    "new_conflict": "Another file stands at the final path; it is never replaced.",
    "new_no_file": "The app says that the download is done, and no file appears.",
    "new_wrong_page": "The page that opens is another report's; nothing is tapped.",
    "new_no_quota": "The day's quota is used up before the reservation.",
    "new_deadline_p04": "The window closes while the file is copied.",
    "new_deadline_p07": "The window closes after the file is published.",
    "new_late_p09": "The last step becomes durable after the window has closed.",
    "project_reuse": "A report is delivered, and asked for again: from the library.",
    "cache_reuse": "The phone holds the report's file already; no quota is used.",
    "cache_identical": "The phone holds the file, and the same one stands at the final path.",
    "cache_conflict": "The phone holds the file, and another one stands at the final path.",
    "cache_late_p07": "The window closes on a reuse after its file is published.",
    "two_stages": "Two new reports and a reuse in different stages at the same time.",
    "run": "A whole run: one report from the phone's cache, one paid for, the screen kept on.",
    "run --dry-run": "A whole run that only makes a plan.",
    "run at a wall": "A run that meets a wall in the app and holds the account.",
    "run without quota": "A run that puts what it could not pay for on the want-list.",
    "ledger repair": "An unfinished last line is moved aside and that is recorded.",
    "ledger accept-clock": "A person accepts the host's clock, which is behind the last event.",
    "recover leftovers": "A recovery without a phone over items in several stages.",
    "want add": "A wish is put on the want-list.",
    "package": "A run's reports are packed into a zip that a person named.",
    "report": "A run's page is written where a person named it, over an older one.",
    "doctor --walk": "A person lets doctor walk the app, which ends a hold.",
}
