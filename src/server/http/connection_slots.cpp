#include "server/http/connection_slots.h"

namespace nibble::server {

bool ConnectionSlots::make_room() {
  if (waiting_.empty()) return false;
  Slot& longest = *waiting_.front();
  longest.work();
  longest.has_given_way_ = true;
  longest.give_way_();
  return true;
}

ConnectionSlots::Slot::Slot(std::shared_ptr<ConnectionSlots> slots, std::function<void()> give_way)
    : slots_(std::move(slots)), give_way_(std::move(give_way)), self_{this}, entry_(self_.begin()) {
  ++slots_->num_taken_;
}

ConnectionSlots::Slot::~Slot() {
  work();
  --slots_->num_taken_;
}

void ConnectionSlots::Slot::wait() {
  if (has_given_way_) return;
  slots_->waiting_.splice(slots_->waiting_.end(), waits_ ? slots_->waiting_ : self_, entry_);
  waits_ = true;
}

void ConnectionSlots::Slot::work() {
  if (waits_) self_.splice(self_.end(), slots_->waiting_, entry_);
  waits_ = false;
}

}  // namespace nibble::server
