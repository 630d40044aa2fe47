from hypothesis import settings

settings.register_profile("datasets", deadline=None)  # the first call compiles the kernels
settings.load_profile("datasets")
