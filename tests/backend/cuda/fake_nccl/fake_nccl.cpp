// A libnccl.so.2 for tests. Its ranks are threads of one process, and its memory is host memory, like the
// memory of the emulated GPU. The library reports version FAKE_NCCL_VERSION. From call number
// FAKE_NCCL_ERROR_AT on, every call fails; ncclGetVersion is not counted.
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess{0}, kSystemError{2}, kInvalidArgument{4};

int number_from(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}
std::atomic<int> num_calls{0};
bool fails() {
  const int first = number_from("FAKE_NCCL_ERROR_AT", 0);
  return ++num_calls >= first && first > 0;
}

size_t bytes_of(size_t count, int type) { return type == 7 ? 4 * count : count; }

struct Message {
  bool is_sent;
  int peer;
  void* data;
  size_t bytes;
};

// A group of ranks. In an exchange, the ranks publish the addresses of their data, copy the data that they
// receive, and continue when all ranks have copied.
class Group {
 public:
  explicit Group(int num_ranks) : messages_(static_cast<size_t>(num_ranks)) {}
  size_t num_ranks() const { return messages_.size(); }

  template <typename Copy>
  int exchange(int rank, std::vector<Message> own, const Copy& copy) {
    messages_[static_cast<size_t>(rank)] = std::move(own);
    if (!meet()) return kSystemError;
    copy(messages_);
    return meet() ? kSuccess : kSystemError;
  }
  bool meet() {
    std::unique_lock lock(mutex_);
    const unsigned round = round_;
    if (++num_here_ == messages_.size()) {
      num_here_ = 0;
      ++round_;
      all_are_here_.notify_all();
    }
    all_are_here_.wait(lock, [&] { return round_ != round || is_aborted_; });
    return round_ != round;
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    all_are_here_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_are_here_;
  std::vector<std::vector<Message>> messages_;  // the messages of each rank
  size_t num_here_{0};
  unsigned round_{0};
  bool is_aborted_{false};
};

struct Id {
  char bytes[128];
};

std::mutex groups_mutex;
std::map<std::string, std::shared_ptr<Group>> groups;
thread_local int depth{0};
thread_local std::vector<Message> waiting;

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank;
};
namespace {
thread_local ncclComm* of_waiting{nullptr};

int exchange_waiting() {
  ncclComm* const comm = of_waiting;
  return comm->group->exchange(comm->rank, std::exchange(waiting, {}), [&](const auto& all) {
    std::map<int, size_t> next;  // index of the next message from each peer
    for (const Message& wanted : all[static_cast<size_t>(comm->rank)]) {
      if (wanted.is_sent) continue;
      const auto& theirs = all[static_cast<size_t>(wanted.peer)];
      size_t& i = next[wanted.peer];
      while (!theirs[i].is_sent || theirs[i].peer != comm->rank) ++i;
      std::memcpy(wanted.data, theirs[i++].data, wanted.bytes);
    }
  });
}
int add_message(ncclComm* comm, const Message& message) {
  if (!comm) return kInvalidArgument;
  of_waiting = comm;
  waiting.push_back(message);
  return depth > 0 ? kSuccess : exchange_waiting();
}
}  // namespace

extern "C" {

int ncclGetVersion(int* version) { return *version = number_from("FAKE_NCCL_VERSION", 22809), kSuccess; }
const char* ncclGetErrorString(int) { return "a fake error"; }
const char* ncclGetLastError(ncclComm*) { return "this is\na test"; }

int ncclGetUniqueId(Id* id) {
  static std::atomic<int> last{0};
  if (fails()) return kSystemError;
  *id = {};
  const std::string text = "fake group " + std::to_string(++last);
  return std::memcpy(id->bytes, text.data(), text.size()), kSuccess;
}
int ncclCommInitRank(ncclComm** comm, int num_ranks, Id id, int rank) {
  if (fails()) return kSystemError;
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(groups_mutex);
    auto& place = groups[{id.bytes, sizeof id.bytes}];
    if (!place) place = std::make_shared<Group>(num_ranks);
    group = place;
  }
  *comm = new ncclComm{group, rank};
  return group->meet() ? kSuccess : kSystemError;
}
int ncclCommGetAsyncError(ncclComm* comm, int* error) {
  return *error = kSuccess, comm ? kSuccess : kInvalidArgument;
}
int ncclCommAbort(ncclComm* comm) {
  comm->group->abort();
  delete comm;
  return kSuccess;
}
int ncclAllGather(const void* from, void* to, size_t count, int type, ncclComm* comm, void*) {
  if (!comm || fails()) return kSystemError;
  const size_t bytes = bytes_of(count, type);
  return comm->group->exchange(comm->rank, {{true, 0, const_cast<void*>(from), bytes}}, [&](const auto& all) {
    for (size_t rank = 0; rank < comm->group->num_ranks(); ++rank)
      std::memmove(static_cast<char*>(to) + rank * bytes, all[rank].front().data, bytes);
  });
}
#ifndef FAKE_NCCL_WITHOUT_BROADCAST
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, ncclComm* comm, void*) {
  if (!comm || fails()) return kSystemError;
  return comm->group->exchange(comm->rank, {{true, 0, const_cast<void*>(from), 0}}, [&](const auto& all) {
    if (comm->rank != root)
      std::memcpy(to, all[static_cast<size_t>(root)].front().data, bytes_of(count, type));
  });
}
#endif
int ncclSend(const void* from, size_t count, int type, int to, ncclComm* comm, void*) {
  if (fails()) return kSystemError;
  return add_message(comm, {true, to, const_cast<void*>(from), bytes_of(count, type)});
}
int ncclRecv(void* to, size_t count, int type, int from, ncclComm* comm, void*) {
  if (fails()) return kSystemError;
  return add_message(comm, {false, from, to, bytes_of(count, type)});
}
int ncclGroupStart() { return ++depth, kSuccess; }
int ncclGroupEnd() { return --depth > 0 || waiting.empty() ? kSuccess : exchange_waiting(); }

}  // extern "C"
