// Who is signed in, and what they may do: what they may not is not offered.
import { ask, get, Refusal } from './api'

export interface Identity {
  policy: string
  scope: string
  rights: string[]
  seconds_left: number | null
  console: 'on' | 'read-only'
  faults: boolean
  cluster: boolean
  profile: string
  version: string
}

export const session = $state<{ who: Identity | null; known: boolean }>({ who: null, known: false })

export async function refresh(): Promise<void> {
  try {
    session.who = await get<Identity>('/session')
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) session.who = null
    else throw error
  } finally {
    session.known = true
  }
}

export async function signIn(token: string): Promise<void> {
  session.who = await ask<Identity>('POST', '/session', { token })
}

export async function signOut(): Promise<void> {
  await ask('DELETE', '/session')
  session.who = null
}

/** What serves lanes and clients: the nodes of a cluster, or the workers of one server. */
export const server = () => (session.who?.cluster ? 'node' : 'worker')

/** What fragments lie in: the lanes of a cluster, or the stores of one server. */
export const place = () => (session.who?.cluster ? 'lane' : 'store')

export const capital = (word: string) => word[0]!.toUpperCase() + word.slice(1)

/** Whether an action may be offered; the server checks again. */
export function may(right: 'Manage' | 'Send' | 'Listen', changes = true): boolean {
  const who = session.who
  return !!who && who.rights.includes(right) && !(changes && who.console === 'read-only')
}
