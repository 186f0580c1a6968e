# cmake --install build/release [--prefix ~/.local]: installs the program, the bundled model, the manual pages and shell
# completions. The program itself writes the last two during the installation.
install(TARGETS nibble RUNTIME DESTINATION bin)
install(DIRECTORY models/tiny-gpt-oss DESTINATION share/nibble/models)
install(FILES tests/golden/golden.json tests/golden/golden.safetensors DESTINATION share/nibble/models/tiny-gpt-oss)
install(FILES LICENSE DESTINATION share/doc/nibble)
install(CODE "set(nibble ${CMAKE_CROSSCOMPILING_EMULATOR} \"$<TARGET_FILE:nibble>\")
set(work \"${CMAKE_BINARY_DIR}/generated/install\")
include(\"${CMAKE_SOURCE_DIR}/cmake/InstallTexts.cmake\")")
