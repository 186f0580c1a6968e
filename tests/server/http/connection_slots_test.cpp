// Tests which connection is closed when all slots are taken.
#include "server/http/connection_slots.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <vector>

namespace nibble::server {
namespace {

class TwoConnectionSlots : public testing::Test {
 protected:
  ConnectionSlots::Slot& take(int number) {
    return taken_.emplace_back(slots_, [this, number] { given_.push_back(number); });
  }

  std::shared_ptr<ConnectionSlots> slots_{std::make_shared<ConnectionSlots>(2)};
  std::list<ConnectionSlots::Slot> taken_;
  std::vector<int> given_;
};

TEST_F(TwoConnectionSlots, TheOneWhoseClientHasBeenSilentForLongestGivesWay) {
  ConnectionSlots::Slot &one = take(1), &two = take(2), &three = take(3);
  EXPECT_TRUE(slots_->are_too_few());
  one.wait();
  two.wait();
  three.wait();
  one.work();  // now the connection `one` has been silent for the shortest time
  one.wait();
  EXPECT_TRUE(slots_->make_room());
  EXPECT_EQ(given_, std::vector({2}));
  EXPECT_TRUE(two.has_given_way());
  EXPECT_FALSE(one.has_given_way());
}

TEST_F(TwoConnectionSlots, WhatTheServerWorksForNeverGivesWay) {
  ConnectionSlots::Slot &one = take(1), &two = take(2);
  EXPECT_FALSE(slots_->make_room());
  one.wait();
  two.wait();
  one.work();
  EXPECT_TRUE(slots_->make_room());
  EXPECT_FALSE(slots_->make_room());
  EXPECT_EQ(given_, std::vector({2}));
}

TEST_F(TwoConnectionSlots, AConnectionGivesWayOnce) {
  ConnectionSlots::Slot& one = take(1);
  one.wait();
  EXPECT_TRUE(slots_->make_room());
  one.wait();  // the connection still waits while it is being closed
  EXPECT_FALSE(slots_->make_room());
}

TEST_F(TwoConnectionSlots, ASlotIsFreeWhenItsConnectionEnds) {
  take(1).wait();
  take(2);
  take(3).wait();
  taken_.pop_front();
  EXPECT_EQ(slots_->num_taken(), 2);
  EXPECT_FALSE(slots_->are_too_few());
  EXPECT_TRUE(slots_->make_room());
  EXPECT_EQ(given_, std::vector({3}));
}

}  // namespace
}  // namespace nibble::server
