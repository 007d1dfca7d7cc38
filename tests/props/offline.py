"""stub replaced below"""


def ends_as_expected(folder, tables):
    return True
