"""The guest's tests of the data path, over the model: the same functions, under this folder's fixtures."""

from tests.rdma.test_path_failures import (
    test_a_device_that_is_not_there_is_named_with_those_that_are,
    test_a_device_that_takes_one_piece_a_request_still_serves,
    test_a_fault_is_a_typed_error_and_the_next_transfer_is_right,
    test_a_gid_that_moved_is_found_anew,
    test_a_gid_that_moves_under_a_transfer_does_not_stop_what_is_connected,
    test_a_receiver_without_receives_is_given_up_after_the_retries,
    test_both_ends_take_the_smaller_mtu,
)
from tests.rdma.test_path_fences import (
    test_a_key_without_remote_access_opens_nothing_and_a_new_registration_has_a_new_key,
    test_a_late_write_is_refused_and_changes_nothing,
    test_a_source_that_was_given_back_is_not_read_any_more,
    test_a_windows_key_opens_no_page_beside_it,
    test_windows_are_told_for_the_leases_pages_alone,
)
from tests.rdma.test_path_rails import (
    test_a_failed_rails_work_goes_over_the_other,
    test_a_rail_that_cannot_connect_is_left_out,
    test_a_sender_with_more_rails_than_the_receiver_uses_as_many,
    test_both_rails_carry,
    test_when_every_rail_has_failed_the_transfer_fails_with_the_last_reason,
)
from tests.rdma.test_path_ways import (
    test_each_way_translates,
    test_transfers_in_both_directions_at_once_keep_apart,
)

__all__ = [
    "test_a_device_that_is_not_there_is_named_with_those_that_are",
    "test_a_device_that_takes_one_piece_a_request_still_serves",
    "test_a_failed_rails_work_goes_over_the_other",
    "test_a_fault_is_a_typed_error_and_the_next_transfer_is_right",
    "test_a_gid_that_moved_is_found_anew",
    "test_a_gid_that_moves_under_a_transfer_does_not_stop_what_is_connected",
    "test_a_key_without_remote_access_opens_nothing_and_a_new_registration_has_a_new_key",
    "test_a_late_write_is_refused_and_changes_nothing",
    "test_a_rail_that_cannot_connect_is_left_out",
    "test_a_receiver_without_receives_is_given_up_after_the_retries",
    "test_a_sender_with_more_rails_than_the_receiver_uses_as_many",
    "test_a_source_that_was_given_back_is_not_read_any_more",
    "test_a_windows_key_opens_no_page_beside_it",
    "test_both_ends_take_the_smaller_mtu",
    "test_both_rails_carry",
    "test_each_way_translates",
    "test_transfers_in_both_directions_at_once_keep_apart",
    "test_when_every_rail_has_failed_the_transfer_fails_with_the_last_reason",
    "test_windows_are_told_for_the_leases_pages_alone",
]
