// Makes profiler_steps.cpp the program's profiler: NVTX calls the function that this variable points to. The
// headers of NVTX define it as a weak symbol, so it is in a file that does not include them.
extern "C" {
int attach_profiler(void* (*get_table)(unsigned));
int (*InitializeInjectionNvtx2_fnptr)(void* (*get_table)(unsigned)) = &attach_profiler;
}
