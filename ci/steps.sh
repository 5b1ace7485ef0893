# shellcheck shell=bash
# Sourced by ci/run and ci/test: runs steps, mostly one after another, and adds up what they counted. Bash.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Seconds the whole run may take; a step that goes beyond is ended and counts as failed.
limit=${WEFT_TEST_LIMIT:-4500}
total_passed=0
total_failed=0
total_skipped=0
failures=

# Counts what a step printed: `count NAME STATUS LOG`.
count() {
    local name=$1 status=$2 log=$3 line p f s
    line=$(sed -n 's/^--- .*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped in .*/\1 \2 \3/p' "$log" | tail -n 1)
    read -r p f s <<<"${line:-0 0 0}"
    # A step that did not reach its last line, or failed without saying what, is a failure itself.
    if [ -z "$line" ] || { [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; }; then
        echo "FAIL  $name ended with code $status"
        f=$((f + 1))
    fi
    if [ $((p + f + s)) -eq 0 ]; then
        echo "FAIL  $name found nothing to check"
        f=1
    fi
    total_passed=$((total_passed + p))
    total_failed=$((total_failed + f))
    total_skipped=$((total_skipped + s))
    [ "$f" -eq 0 ] || failures="$failures $name"
    rm -f "$log"
}
# Runs a step in the time that is left.
run_step() {
    local left=$((limit - SECONDS))
    if [ "$left" -le 5 ]; then
        echo "FAIL  $1: no time left of $limit s"
        return 124
    fi
    timeout --kill-after=10 "$left" "ci/$1" 2>&1
}
run_steps() {
    local name log
    for name in "$@"; do
        log=$(mktemp)
        run_step "$name" | tee "$log"
        count "$name" "${PIPESTATUS[0]}" "$log"
    done
}

# Steps that take one processor for minutes run beside others, where there is another one. `begin_steps NAME...`: one after the other; and
# later `end_step NAME` for each, which prints what it said.
declare -A begun logs
begin_steps() {
    local name
    [ "$(nproc)" -gt 1 ] || return 0
    for name in "$@"; do
        logs[$name]=$(mktemp)
    done
    for name in "$@"; do
        run_step "$name" >"${logs[$name]}" 2>&1
        echo $? >"${logs[$name]}.status"
    done &
    for name in "$@"; do
        begun[$name]=$!
    done
}
end_step() {
    local log=${logs[$1]:-} status
    if [ -z "$log" ]; then
        run_steps "$1"
        return
    fi
    # All that were begun together have ended then.
    wait "${begun[$1]}" 2>/dev/null
    status=$(cat "$log.status" 2>/dev/null || echo 1)
    cat "$log"
    rm -f "$log.status"
    count "$1" "$status" "$log"
    unset "begun[$1]" "logs[$1]"
}

# Runs steps beside those that wait for most of their time: for the silence of hosts that are cut off, or for one processor of a guest. Limits
# of time are three times as long meanwhile.
beside_hosts_and_guests() {
    begin_steps hosts vm
    WEFT_TEST_PATIENCE=${WEFT_TEST_PATIENCE:-3} run_steps "$@"
    end_step hosts
    end_step vm
}

# Seconds that the checks of the sources take where a whole run takes 35 to 40 minutes, at most; they take 80 where it takes 35.
usual_checks=120
# After those: on a slower machine later steps take half of what goes by turns from commit to commit, and the other half with the next.
find_pace() {
    [ -z "${WEFT_TEST_PACE:-}" ] || return 0
    export WEFT_TEST_PACE=1
    if [ "$1" -gt "$usual_checks" ]; then
        WEFT_TEST_PACE=2
        echo "=== a slow machine: $1 s where $usual_checks are usual, so what goes by turns is halved (WEFT_TEST_PACE=1 runs as much as elsewhere)"
    fi
}

report() {
    echo
    [ -z "$failures" ] || echo "failed steps:$failures (each runs alone as ci/NAME)"
    echo "whole run: $SECONDS s"
    echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
    [ "$total_failed" -eq 0 ]
    exit
}
