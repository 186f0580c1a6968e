# nibble_boost: the headers of Boost.Asio, Boost.Beast and Boost.Process 1.81. Nothing of Boost is linked: coroutines are C++20's,
# and Boost.Process takes paths of std::filesystem.
find_package(Boost 1.81 REQUIRED)
add_library(nibble_boost INTERFACE)
target_include_directories(nibble_boost SYSTEM INTERFACE ${Boost_INCLUDE_DIRS})
target_compile_definitions(nibble_boost INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_PROCESS_USE_STD_FS)
# Clang 14 and 15 have C++20 coroutines but do not say so in the macro that libstdc++ and Asio ask (LLVM review D136936).
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  target_compile_definitions(nibble_boost INTERFACE __cpp_impl_coroutine=201902L)
  # Nor can they assemble a coroutine with this check of UBSan ("Cannot represent a difference across sections").
  target_compile_options(nibble_boost INTERFACE -fno-sanitize=function)
endif()
# Asio takes memory by operator new, whose handler can wait for it (core/memory_handler.h), and not by aligned_alloc().
target_compile_definitions(nibble_boost INTERFACE BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC BOOST_ASIO_DISABLE_BOOST_ALIGN)
# GCC 12 inlines only one of the two functions that Asio makes and frees a coroutine's frame with, and takes them for strangers where
# ThreadSanitizer is on.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(nibble_boost INTERFACE -Wno-mismatched-new-delete)
endif()
# GCC's ThreadSanitizer knows no fences. Asio's stand beside locks that it sees: without them it only has less to believe.
if(NIBBLE_SANITIZE MATCHES thread)
  target_compile_definitions(nibble_boost INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
