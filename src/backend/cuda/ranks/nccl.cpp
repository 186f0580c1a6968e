#include "backend/cuda/ranks/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/errors/error.h"

namespace nibble::cuda {
namespace {

constexpr int kSuccess{0}, kInProgress{7};
// Oldest accepted version of NCCL: the first with NCCL_RUNTIME_CONNECT. As in NCCL, the number is 10,000
// major + 100 minor + patch.
constexpr int kOldest{2'22'00};

std::string text_of_version(int code) {
  return fmt::format("{}.{}.{}", code / 10'000, code / 100 % 100, code % 100);
}

// Sets environment variables that NCCL reads when it creates its first id or communicator. Values that the
// user has set stay, except that NVLink multicast is always off: with multicast on, NCCL fails where the
// resources of multicast are missing.
void set_environment(const std::string& interface) {
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  // Connects all ranks when the communicator is created, because NCCL cannot do so in graph capture.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  if (!interface.empty()) setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), 0);
}

}  // namespace

std::shared_ptr<const Nccl> Nccl::load(const std::string& library, const std::string& interface) {
  const std::string name = library.empty() ? "libnccl.so.2" : library;
  set_environment(interface);
  // The library is never closed: its threads run until the process ends.
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw InputError("NCCL: {}; {}", dlerror(),
                     library.empty() ? "--nccl names the file of a libnccl.so.2 that is elsewhere"
                                     : "--nccl names the file of a libnccl.so.2");
  const std::shared_ptr<Nccl> nccl(new Nccl);
  const auto find = [&](auto& function, const char* symbol) {
    void* const address = dlsym(handle, symbol);
    if (!address) throw InputError("NCCL: {} lacks {}: it is not NCCL, or an older version", name, symbol);
    std::memcpy(&function, &address, sizeof address);
  };
  find(nccl->get_version, "ncclGetVersion");
  find(nccl->get_error_string, "ncclGetErrorString");
  int code = 0;
  nccl->check(nccl->get_version(&code), "reading its version");
  nccl->version_ = text_of_version(code);
  if (code < kOldest)
    throw InputError("NCCL: {} is version {}, and nibble needs {} or later", name, nccl->version_,
                     text_of_version(kOldest));
  find(nccl->get_last_error, "ncclGetLastError");
  find(nccl->get_unique_id, "ncclGetUniqueId");
  find(nccl->comm_init_rank, "ncclCommInitRank");
  find(nccl->comm_get_async_error, "ncclCommGetAsyncError");
  find(nccl->comm_abort, "ncclCommAbort");
  find(nccl->all_gather, "ncclAllGather");
  find(nccl->broadcast, "ncclBroadcast");
  find(nccl->send, "ncclSend");
  find(nccl->receive, "ncclRecv");
  find(nccl->group_start, "ncclGroupStart");
  find(nccl->group_end, "ncclGroupEnd");
  return nccl;
}

GroupId Nccl::new_group() const {
  NcclId id;
  check(get_unique_id(&id), "creating a group");
  GroupId group;
  std::memcpy(group.data(), id.bytes, sizeof id.bytes);
  return group;
}

void Nccl::check(int result, const char* what, NcclComm* comm) const {
  if (result == kSuccess || result == kInProgress) return;
  std::string detail = get_last_error ? get_last_error(comm) : "";
  std::ranges::replace(detail, '\n', ' ');
  throw InputError("NCCL {}: {}: {}{}{}", version_, what, get_error_string(result),
                   detail.empty() ? "" : ": ", detail);
}

}  // namespace nibble::cuda
