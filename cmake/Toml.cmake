# nibble_toml: toml++, which parses the configuration file. Headers only.
find_path(TOML_INCLUDE toml++/toml.h REQUIRED)
add_library(nibble_toml INTERFACE)
target_include_directories(nibble_toml SYSTEM INTERFACE ${TOML_INCLUDE})
