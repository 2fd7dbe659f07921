LEVEL: int
