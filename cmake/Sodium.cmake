# nibble_sodium: libsodium, for the HMAC, hash and random numbers with which nodes authenticate each other. Linked
# statically if the archive exists.
find_path(SODIUM_INCLUDE sodium.h REQUIRED)
find_library(SODIUM_LIBRARY NAMES libsodium.a sodium REQUIRED)
add_library(nibble_sodium INTERFACE)
target_include_directories(nibble_sodium SYSTEM INTERFACE ${SODIUM_INCLUDE})
target_link_libraries(nibble_sodium INTERFACE ${SODIUM_LIBRARY})
