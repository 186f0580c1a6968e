# nibble_boost: the headers of Boost.Asio, Boost.Beast and Boost.Process 1.81. Nothing of Boost is linked: coroutines
# are those of C++20, and Boost.Process takes std::filesystem paths.
find_package(Boost 1.81 REQUIRED)
add_library(nibble_boost INTERFACE)
target_include_directories(nibble_boost SYSTEM INTERFACE ${Boost_INCLUDE_DIRS})
target_compile_definitions(nibble_boost INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_PROCESS_USE_STD_FS)
# Clang 14 and 15 have C++20 coroutines but do not define the macro that libstdc++ and Asio check (LLVM review D136936).
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  target_compile_definitions(nibble_boost INTERFACE __cpp_impl_coroutine=201902L)
  # They also cannot assemble a coroutine with this UBSan check ("Cannot represent a difference across sections").
  target_compile_options(nibble_boost INTERFACE -fno-sanitize=function)
endif()
# Asio allocates by operator new, whose handler can wait for memory (core/memory/memory_handler.h), not by
# aligned_alloc().
target_compile_definitions(nibble_boost INTERFACE BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC BOOST_ASIO_DISABLE_BOOST_ALIGN)
# With ThreadSanitizer, GCC 12 inlines only one of the two functions with which Asio allocates and frees a coroutine's
# frame, and then warns that they do not match.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(nibble_boost INTERFACE -Wno-mismatched-new-delete)
endif()
# GCC's ThreadSanitizer does not support fences. Asio's fences come with locks that it does understand, so without them
# it only assumes less synchronisation.
if(NIBBLE_SANITIZE MATCHES thread)
  target_compile_definitions(nibble_boost INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
