//! x
use std::time::{Duration,Instant};
use routepack_anneal::Stream;
use routepack_binpack::*;
use routepack_certificate::Statement;
fn knife(stream:&mut Stream, n:usize, c:u64, per:f64, sigma:f64, cap:f64, d:u64)->Option<Vec<u64>>{
    let mu=(c as f64/per).ln()-sigma*sigma/2.0; let top=(cap*c as f64) as u64;
    let mut w:Vec<u64>=(0..n).map(|_| ((mu+sigma*stream.normal()).exp() as u64).clamp(1,top)).collect();
    let mut total:u64=w.iter().sum(); let k=total.div_ceil(c*d)*d; let slack=0.02*stream.unit(); let mut target=(k as f64*c as f64*(1.0-slack)) as u64; if target<=(k-1)*c {target=(k-1)*c+1+(stream.unit()*0.5*c as f64) as u64;}
    while total!=target { let i=stream.index(n); if total<target { let add=(target-total).min(top-w[i]).min(1+w[i]/4); w[i]+=add; total+=add; } else { let sub=(total-target).min(w[i]/4).min(w[i]-1); w[i]-=sub; total-=sub; } }
    (best_fit_decreasing(&w,c,None).len() as u64>k && first_fit_decreasing(&w,c,None).len() as u64>k).then_some(w)
}
fn main(){
    let limit=Duration::from_secs_f64(std::env::args().nth(1).map_or(10.0,|x|x.parse().unwrap()));
    for (n,c) in [(200usize,8192u64),(512,16384),(1024,32768),(2048,8192),(4096,32768)] { for per in [2.5,4.0,8.0,16.0] { for d in [1,4,8] {
        let (mut ok,mut worst,mut sum)=(0,0.0f64,0.0);  let mut found=0;
        for rep in 0..200 { if found==4 {break;} let mut s=Stream::new(1000*rep+n as u64+(per*8.0) as u64); let Some(w)=knife(&mut s,n,c,per,0.9,0.8,d) else {continue}; found+=1;
            let st=Statement{slots:d,..Statement::bins(w,c)}; let t0=Instant::now(); let mut log=String::new();
            let r=pack(&st,&PackOptions::default(),1,&|| t0.elapsed()>limit,&mut |p| log+=&format!(" {}:{}/{}@{:.3}",p.method,p.cells_bound,p.cells,t0.elapsed().as_secs_f64())).unwrap(); let t=t0.elapsed().as_secs_f64(); sum+=t; worst=worst.max(t); if r.rows==r.rows_bound {ok+=1;} else {println!("   open n {n} per {per} d {d} rep {rep} {}/{} {log}",r.rows_bound,r.rows);} }
        println!("n {n} c {c} per {per} d {d}: proved {ok}/{found} mean {:.3} max {worst:.3}",sum/4.0);
    }}}
}
