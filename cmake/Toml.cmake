# nibble_toml: toml++, which reads the configuration file. Headers alone.
find_path(TOML_INCLUDE toml++/toml.h REQUIRED)
add_library(nibble_toml INTERFACE)
target_include_directories(nibble_toml SYSTEM INTERFACE ${TOML_INCLUDE})
