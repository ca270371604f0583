// What the server is asked, and how its refusals read.

export class Refusal extends Error {
  constructor(public status: number, text: string, public trackingId: string) {
    super(text)
  }
}

const BASE = '/$partibus'

export async function ask<T = any>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response
  try {
    response = await fetch(BASE + path, {
      method,
      credentials: 'same-origin',
      headers: { 'x-partibus-console': '1', ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  } catch {
    throw new Refusal(0, 'The server does not answer. Is it running?', '')
  }
  const text = await response.text()
  let answer: any
  try {
    answer = JSON.parse(text)
  } catch {
    answer = undefined
  }
  if (!response.ok || answer === undefined) {
    const error = answer?.error
    throw new Refusal(response.status, error?.text ?? (text.trim() || `status ${response.status}`), error?.tracking_id ?? '')
  }
  return answer as T
}

export const get = <T = any>(path: string) => ask<T>('GET', path)

/** An entity's place below /entities: the slashes of its name stay. */
export const entityPath = (name: string) => '/entities/' + name.split('/').map(encodeURIComponent).join('/')

export const twin = (path: string) => BASE + path

export function query(values: Record<string, string | number | undefined>): string {
  const set = Object.entries(values).filter(([, v]) => v !== undefined && v !== '' && v !== 0)
  return set.length ? '?' + set.map(([k, v]) => `${k}=${encodeURIComponent(String(v))}`).join('&') : ''
}
