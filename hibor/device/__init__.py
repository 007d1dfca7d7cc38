"""The phone: one narrow protocol, one implementation over adbutils, and everything that reads its screen.

Layers, each importing only those above it: errors and value types; the adapter (`adb`); the UI tree and the
ways to obtain it (`uitree`, `dumping`); the app profile (`profile`), anchors and page readers (pure
functions of tree and profile); the driver that moves through the app (`navigate`) and the trigger
(`trigger`).
"""
