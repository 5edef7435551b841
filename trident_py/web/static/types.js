// @ts-check
/**
 * What the server says, as types; nothing of it exists when the page runs.
 *
 * Moments are in seconds since 1970, durations in seconds.
 *
 * @typedef {"processing" | "processed" | "committed" | "parked" | "failed" | "abandoned"} Outcome
 *
 * @typedef {object} Attempt
 * @property {string} attempt
 * @property {number} txid
 * @property {number} attempt_id
 * @property {number | null} number
 * @property {Outcome} outcome
 * @property {number} epoch
 * @property {string | null} host
 * @property {number | null} pid
 * @property {string | null} version
 * @property {string | null} code
 * @property {number} emitted
 * @property {number | null} ended
 * @property {number | null} succeeded
 * @property {number} processing
 * @property {number} waiting
 * @property {number} committing includes `waiting`
 * @property {number} rows
 * @property {Record<string, number>} written
 * @property {Record<string, number>} counts
 * @property {Record<string, unknown>} definition
 * @property {string | null} error
 * @property {string | null} failed the attempt that has failed: this one, or an earlier one
 *
 * @typedef {object} Transaction
 * @property {number} txid
 * @property {Outcome} outcome
 * @property {Attempt[]} attempts
 *
 * @typedef {object} Rate
 * @property {number} [batches_per_second]
 * @property {number} [pending]
 * @property {number} [max_batch]
 *
 * @typedef {object} Leader
 * @property {string} host
 * @property {number} pid
 * @property {number | null} [since]
 * @property {string | null} [address]
 *
 * @typedef {object} Status
 * @property {string} message
 * @property {string} state
 * @property {boolean} is_leading
 * @property {Leader | null} leader
 * @property {number | null} epoch
 * @property {number | null} current_txid
 * @property {string[]} [in_flight] attempts
 * @property {number} committed by this leadership
 * @property {number} rows likewise
 * @property {Record<string, number>} counts
 * @property {Record<string, Record<string, number>>} lag
 * @property {string[]} unready
 * @property {"nothing" | "paused" | "draining"} hold
 * @property {Rate} rate
 * @property {string} reason
 * @property {{what: string, since: number | null}[]} waits_for
 * @property {Parked[]} parked
 * @property {Record<string, string>} [expiring] why rows of parked transactions may soon be gone
 * @property {{there?: number, answered?: number, given_back?: number, dropped?: number}} [resident_tasks] empty: none stay
 * @property {{task: number, seconds: number, place: string}[]} [busy_tasks] those that have had a request for long
 * @property {string | null} error
 * @property {number} events_dropped
 * @property {string} history_error
 * @property {number | null} leads_since
 *
 * @typedef {object} Message
 * @property {string} topology
 * @property {number} now
 * @property {boolean} is_live
 * @property {Status} status
 * @property {Transaction[]} transactions
 *
 * @typedef {object} Parked
 * @property {number} txid
 * @property {number} since
 * @property {string} by
 * @property {string} reason
 * @property {string} error
 * @property {boolean} is_wanted
 * @property {number} released_as
 * @property {string} [letters_of]
 *
 * @typedef {object} PlanNode
 * @property {number} id
 * @property {string} title
 * @property {string} kind
 * @property {string} name
 * @property {string | null} label
 * @property {string} phase
 * @property {string} engine
 * @property {string} fields
 * @property {number[]} inputs
 * @property {string} replay
 * @property {string} promise
 * @property {string} reason
 * @property {string} described
 */
export {};
