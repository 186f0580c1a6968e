# The CUDA backend: a floor whose kernels nvcc compiles. The runtime is linked statically; the driver is loaded at
# program start, so the same binary runs without one. NIBBLE_CUDA_ARCHITECTURES: sm_90a for Hopper, sm_80 (also as PTX)
# for older and other chips, sm_120a and sm_121a for Blackwell. src/backend/cuda/chip/caps.cpp says which chip runs
# which of these. Only machines with Arm processors have a GPU of sm_121 (GB10).
set(architectures "80;90a;120a")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(APPEND architectures "121a")
endif()
set(NIBBLE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "compute capabilities that are compiled for")
if(NOT NIBBLE_CUDA_ARCHITECTURES MATCHES "^[0-9]+a?(-real|-virtual)?(;[0-9]+a?(-real|-virtual)?)*$")
  message(FATAL_ERROR "NIBBLE_CUDA_ARCHITECTURES is '${NIBBLE_CUDA_ARCHITECTURES}': accepted is a list as 80;90a, by number")
endif()
# PTX of an architecture with "a" would run only on that architecture, where the machine code runs anyway.
string(REGEX REPLACE "a(;|$)" "a-real\\1" CMAKE_CUDA_ARCHITECTURES "${NIBBLE_CUDA_ARCHITECTURES}")
find_program(NVCC nvcc HINTS /usr/local/cuda/bin REQUIRED)
set(CMAKE_CUDA_COMPILER ${NVCC})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13 REQUIRED)

function(nibble_cuda_floor)
  # The rows of the table name launch functions. In one source file with others, operations.h would overload these.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/backend/cuda/kernel_table.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # test_backend_cuda_emulated links the objects that it needs, and these call what the emulated GPU lacks.
  file(GLOB real_gpu_only CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cuda/verify/probes/*.cpp
    ${CMAKE_SOURCE_DIR}/src/backend/cuda/chip/device_facts.cpp)
  set_source_files_properties(${real_gpu_only} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  nibble_floor(backend/cuda SEES backend)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cuda/*.cu)
  # nvcc does not accept the host's warnings and -ffp-contract. Paths are kept out of the program as in the host's code.
  add_library(nibble_cuda_kernels STATIC ${kernels})
  set(paths "-ffile-prefix-map=../../=")
  if(NOT CCACHE)  # it would keep the objects of each clone apart
    set(paths "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
  endif()
  # C++17: CMake 3.25 knows no later standard for nvcc.
  set_target_properties(nibble_cuda_kernels PROPERTIES CUDA_STANDARD 17 COMPILE_OPTIONS
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall;-Werror=all-warnings;-Xcompiler=${paths}>")
  target_include_directories(nibble_cuda_kernels PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(nibble_cuda_kernels PUBLIC CUDA::cudart_static nibble_core)
  target_link_libraries(nibble_backend_cuda PUBLIC nibble_cuda_kernels CUDA::cudart_static)
  target_link_libraries(nibble_cuda_kernels INTERFACE nibble_backend_cuda)  # it records launches
  list(JOIN CMAKE_CUDA_ARCHITECTURES "," images)
  target_compile_definitions(nibble_backend_cuda PRIVATE NIBBLE_CUDA_IMAGES="${images}")  # used by images.h
  target_include_directories(nibble_backend_cuda SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
endfunction()
